"""An execution's progress: a table on a terminal (`live`), lines in a log."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import assert_never

import click

from compilegate.execution.events import (
    EnvironmentBuilding,
    Event,
    ExecutionEnded,
    ExecutionStarted,
    PathsChosen,
    StepEnded,
    StepOutput,
    StepRetried,
    StepStarted,
    StepWaiting,
    StillRunning,
    StopAsked,
)
from compilegate.execution.status import StepStatus

OUTPUT_EVERY_SECONDS = 10.0
"""A job may print many lines a second; one in this time is enough to show its progress."""
LONGEST_LINE = 100
MOST_NAMES = 6
"""How many steps one line names."""


class StepLines:
    """`MINUTES:SECONDS  STEP  what happened`; the steps' column grows with the longest name."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, seconds: float, step: str, text: str) -> None:
        """Print one line; `seconds` is how long the execution had run."""
        minutes, rest = divmod(int(seconds), 60)
        self._width = max(self._width, len(step))
        click.echo(f"{minutes:4d}:{rest:02d}  {step:<{self._width}}  {text}")


@contextmanager
def progress_shown() -> Iterator[Callable[[Event], None]]:
    """A listener for one execution: a live table on a terminal, else lines."""
    if not sys.stdout.isatty() or os.environ.get("TERM") in {None, "", "dumb", "unknown"}:
        yield ProgressLines()
        return
    from rich.console import Console  # noqa: PLC0415  a log needs none of it

    from compilegate.cli.terminal.live import LiveTable  # noqa: PLC0415

    with LiveTable(Console(highlight=False, force_terminal=True)) as table:
        yield table


class ProgressLines:
    """A listener that prints a line for each start and end, and some of the jobs' output."""

    def __init__(self) -> None:
        self._lines = StepLines()
        self._began: float | None = None
        self._shown: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        self._began = event.at if self._began is None else self._began
        match event:
            case ExecutionStarted():
                _show_start(event)
            case EnvironmentBuilding():
                self._line(
                    event, "", f"building the environment of {event.image}; log: {event.log}"
                )
            case PathsChosen():
                self._paths(event)
            case StepStarted():
                self._started(event)
            case StepOutput():
                self._output(event)
            case StepRetried() | StepWaiting():
                self._line(event, event.step, _delay(event))
            case StepEnded():
                self._ended(event)
            case StopAsked() | StillRunning():
                asked = isinstance(event, StopAsked)
                self._line(event, "", event.sentence if asked else _going(event.steps))
            case ExecutionEnded():
                self._line(event, "", f"execution {event.status.lower()}")
            case _:
                assert_never(event)

    def _paths(self, event: PathsChosen) -> None:
        if not event.own_root:  # what works as in a container needs no word
            self._line(event, "", event.sentence)

    def _started(self, event: StepStarted) -> None:
        if event.job_name is None:
            return
        self._shown[event.step] = event.at
        places = [("core", tuple(map(str, event.cores))), ("GPU", event.gpus)]
        words = [_numbered(kind, names) for kind, names in places if names]
        where = f" on {' and '.join(words)}" if words else ""
        again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
        page = f"  {event.links['job']}" if "job" in event.links else ""
        self._line(event, event.step, f"started{where}{again}{page}")
        if "log" in event.links:
            self._line(event, event.step, f"log  {event.links['log']}")

    def _ended(self, event: StepEnded) -> None:
        if event.status is not StepStatus.NOT_EXECUTED:
            self._line(event, event.step, _ending(event))

    def _output(self, event: StepOutput) -> None:
        line = event.line.strip()
        if line and event.at - self._shown.get(event.step, event.at) >= OUTPUT_EVERY_SECONDS:
            self._shown[event.step] = event.at
            self._line(event, event.step, click.style(line[:LONGEST_LINE], dim=True))

    def _line(self, event: Event, step: str, text: str) -> None:
        began = event.at if self._began is None else self._began
        self._lines.show(event.at - began, step, text)


def _delay(event: StepRetried | StepWaiting) -> str:
    if isinstance(event, StepWaiting):
        return event.sentence
    return (
        f"attempt {event.attempt} failed ({event.failure.headline}); "
        f"trying again in {event.wait_seconds:.0f} s"
    )


def _show_start(event: ExecutionStarted) -> None:
    verb = "resumed" if event.resumed else "started"
    click.echo(f"{event.pipeline_name}: execution {event.execution_id} {verb}")
    if event.reference != event.execution_id:
        click.echo(event.reference)


def _numbered(kind: str, names: tuple[str, ...]) -> str:
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _ending(event: StepEnded) -> str:
    if event.cached_from is not None:
        return f"taken from the cache (execution {event.cached_from.rpartition('/')[2]})"
    if event.status is StepStatus.SUCCEEDED and event.failure is not None:
        return click.style(f"failed, recorded as evidence: {event.failure.headline}", fg="red")
    if event.status is StepStatus.SUCCEEDED:
        return f"succeeded in {event.seconds:.1f} s"
    return click.style(event.status.lower(), fg="red")


def _going(steps: Sequence[str]) -> str:
    shown, more = steps[:MOST_NAMES], len(steps) - MOST_NAMES
    names = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    return f"still running: {names}" if names else "still executing, between steps"
