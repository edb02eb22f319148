"""An execution as it goes, in lines that read well in a terminal and in a CI log alike.

The lines of an execution's progress, here and on SageMaker alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import assert_never

import click

from compilegate.local import (
    EnvironmentBuilding,
    Event,
    ExecutionEnded,
    ExecutionStarted,
    StepEnded,
    StepOutput,
    StepRetried,
    StepStarted,
    StepStatus,
)


class StepLines:
    """`MINUTES:SECONDS  STEP  what happened`; the steps' column grows with the longest name."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, seconds: float, step: str, text: str) -> None:
        """Print one line; `seconds` is how long the execution had run."""
        minutes, rest = divmod(int(seconds), 60)
        self._width = max(self._width, len(step))
        click.echo(f"{minutes:4d}:{rest:02d}  {step:<{self._width}}  {text}")


OUTPUT_EVERY_SECONDS = 10.0
"""A job may print many lines a second; one in this time shows that it lives and how it does."""

LONGEST_LINE = 100


class ProgressLines:
    """A listener that prints one line for what starts and ends, and now and then what jobs say."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._shown: dict[str, float] = {}
        self._lines = StepLines()

    def __call__(self, event: Event) -> None:
        match event:
            case ExecutionStarted():
                verb = "resumed" if event.resumed else "started"
                click.echo(f"{event.pipeline_name}: execution {event.execution_id} {verb}")
            case EnvironmentBuilding():
                self._line("", f"building the environment of {event.image}; log: {event.log}")
            case StepStarted():
                self._started(event)
            case StepOutput():
                self._output(event)
            case StepRetried():
                self._line(
                    event.step,
                    f"attempt {event.attempt} failed ({event.reason}); "
                    f"trying again in {event.wait_seconds:.0f} s",
                )
            case StepEnded():
                self._ended(event)
            case ExecutionEnded():
                self._line("", f"execution {event.status.lower()}")
            case _:
                assert_never(event)

    def _started(self, event: StepStarted) -> None:
        if event.job_name is None:
            return
        self._shown[event.step] = self._clock()
        cores = ", ".join(str(core) for core in event.cores)
        where = f" on core{'s' if len(event.cores) > 1 else ''} {cores}" if cores else ""
        again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
        self._line(event.step, f"started{where}{again}")

    def _output(self, event: StepOutput) -> None:
        now = self._clock()
        line = event.line.strip()
        if line and now - self._shown.get(event.step, now) >= OUTPUT_EVERY_SECONDS:
            self._shown[event.step] = now
            self._line(event.step, click.style(line[:LONGEST_LINE], dim=True))

    def _ended(self, event: StepEnded) -> None:
        match event.status:
            case StepStatus.SUCCEEDED if event.cached:
                self._line(event.step, "taken from the cache")
            case StepStatus.SUCCEEDED:
                self._line(event.step, f"succeeded in {event.seconds:.1f} s")
            case StepStatus.NOT_EXECUTED:
                pass
            case _:
                self._line(event.step, click.style(event.status.lower(), fg="red"))

    def _line(self, step: str, text: str) -> None:
        self._lines.show(self._clock() - self._began, step, text)
