"""An execution on SageMaker, followed in the terminal until it ends or the reader leaves."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, assert_never

import click

from compilegate.account.errors import AwsError, VanishedError
from compilegate.account.executions.events import (
    Event,
    ExecutionEnded,
    ExecutionStarted,
    JobStarted,
    StepEnded,
    StillRunning,
)
from compilegate.account.executions.state import pipeline_of
from compilegate.account.executions.watching import POLL_SECONDS, follow
from compilegate.account.session import AwsSession
from compilegate.cli.terminal.aws_outcome import show_aws_outcome
from compilegate.cli.terminal.progress import StepLines
from compilegate.execution import exit_codes

Command = TypeVar("Command", bound=Callable[..., Any])

MOST_NAMES = 6
"""Steps that are named in one line."""


def poll_option(command: Command) -> Command:
    """Add the option of how often to look, which nobody needs but those in a hurry."""
    return click.option(
        "--poll-seconds",
        type=click.FloatRange(min=0),
        default=POLL_SECONDS,
        envvar="COMPILEGATE_POLL_SECONDS",
        hidden=True,
    )(command)


def show_execution(session: AwsSession, arn: str, home: Path, poll_seconds: float) -> int:
    """Print what happens until the execution ends, then what came out; returns the exit status.

    Ctrl-C leaves the execution to itself.
    """
    try:
        with _leaving_on_termination():
            return _followed(session, arn, home, poll_seconds)
    except KeyboardInterrupt:
        click.echo(
            f"\nno longer watching, which changes nothing for the execution\n"
            f"  watch it again:  compilegate watch {arn}\n"
            f"  stop it:         compilegate stop {arn}",
            err=True,
        )
        return exit_codes.INTERRUPTED


def _followed(session: AwsSession, arn: str, home: Path, poll_seconds: float) -> int:
    try:
        state = follow(session, arn, AwsProgressLines(), poll_seconds)
    except VanishedError as error:
        return _lost(str(error))
    except AwsError as error:
        return _lost(
            f"{error}; the execution may go on, watch it again with: compilegate watch {arn}"
        )
    try:
        return show_aws_outcome(session, state, home)
    except (AwsError, OSError) as error:
        return _lost(
            f"the execution ended as {state.status}, and what came out of it is not known: "
            f"{error}; ask again with: compilegate watch {arn}"
        )


class AwsProgressLines:
    """A listener that prints a line for what starts and ends, with the pages to look at."""

    def __init__(self) -> None:
        self._lines = StepLines()
        self._began: datetime | None = None

    def __call__(self, event: Event) -> None:
        began = self._began = self._began or event.at
        seconds = (event.at - began).total_seconds()
        match event:
            case ExecutionStarted():
                identifier = event.arn.rpartition("/")[2]
                click.echo(f"{pipeline_of(event.arn)}: execution {identifier} started")
                click.echo(event.arn)
            case JobStarted():
                again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
                page = f"  {event.job.page}" if event.job.page else ""
                self._lines.show(seconds, event.step, f"started{again}{page}")
                if event.job.log is not None:
                    self._lines.show(seconds, event.step, f"log  {event.job.log}")
            case StepEnded():
                self._lines.show(seconds, event.step, _ending(event))
            case StillRunning():
                self._lines.show(seconds, "", _going(event.steps))
            case ExecutionEnded():
                self._lines.show(seconds, "", f"execution {event.status.lower()}")
            case _:
                assert_never(event)


def _going(steps: Sequence[str]) -> str:
    shown, more = steps[:MOST_NAMES], len(steps) - MOST_NAMES
    names = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    return f"still running: {names}" if names else "still executing, between two steps"


def _ending(event: StepEnded) -> str:
    if event.cached_from is not None:
        return f"taken from the cache (execution {event.cached_from.rpartition('/')[2]})"
    if event.status == "Succeeded":
        return f"succeeded in {event.seconds:.1f} s"
    return click.style(event.status.lower(), fg="red")


@contextmanager
def _leaving_on_termination() -> Iterator[None]:
    """Treat a termination signal like Ctrl-C, as when CI cancels the job that waits."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lost(why: str) -> int:
    click.secho("\nerror: ", fg="red", bold=True, nl=False, err=True)
    click.echo(why, err=True)
    return exit_codes.LOST
