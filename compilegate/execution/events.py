"""What an execution reports to its listener, in order and on one thread.

`follow` polls a target that sends no events: a step that started and ended between two polls is
reported all the same, and each event once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from compilegate.execution.result import ExecutionResult, StepFailure, StepResult
from compilegate.execution.status import ExecutionStatus, StepStatus

Execution = TypeVar("Execution", bound=ExecutionResult)

POLL_SECONDS = 15.0
"""Seconds between two polls. Jobs take minutes, and an account's request rate is shared."""
QUIET_SECONDS = 300.0
"""The longest silence: CI ends a job that prints nothing for too long."""
_MOST_NAMES = 6


@dataclass(frozen=True, kw_only=True)
class Event:
    at: float = field(default_factory=time.time)
    """Seconds since the epoch."""


@dataclass(frozen=True)
class ExecutionStarted(Event):
    execution_id: str
    pipeline_name: str
    reference: str
    """The target's name for it: its ID here, its ARN on SageMaker."""
    resumed: bool = False
    """Whether the results of its earlier run are kept."""
    jobs: Mapping[str, StepStatus] = field(default_factory=dict)
    """The steps that run a job, in the definition's order, as they stand; empty if unknown."""
    at_once: int | None = None
    """How many jobs can run at one moment; None if unknown."""


@dataclass(frozen=True)
class EnvironmentBuilding(Event):
    """An image's virtual environment is being built, which can take minutes."""

    image: str
    log: str


@dataclass(frozen=True)
class PathsChosen(Event):
    """How jobs find the folders of a container on this machine."""

    own_root: bool
    """Whether each job has a root of its own."""
    sentence: str


@dataclass(frozen=True)
class StepStarted(Event):
    """An attempt at a step has started; from 2 on it is a retry."""

    step: str
    job_name: str | None
    """None for a step that runs no job."""
    attempt: int
    cores: tuple[int, ...] = ()
    """The IDs of the job's own CPUs; empty if unknown."""
    links: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    """The job's own GPUs, as CUDA_VISIBLE_DEVICES names them; empty where it has none."""


@dataclass(frozen=True)
class StepWaiting(Event):
    """A job that is ready to start waits for what jobs of other executions hold."""

    step: str
    what: str
    """cores or GPUs."""
    holders: tuple[str, ...]
    """The IDs of these executions."""

    @property
    def sentence(self) -> str:
        one = len(self.holders) == 1
        holders = f"execution {self.holders[0]}" if one else f"executions {', '.join(self.holders)}"
        return f"waiting for {self.what} that {holders} {'holds' if one else 'hold'}"


@dataclass(frozen=True)
class StepOutput(Event):
    step: str
    line: str
    """Without the line end."""


@dataclass(frozen=True)
class StepRetried(Event):
    """An attempt failed; the next one starts after `wait_seconds`."""

    step: str
    attempt: int
    failure: StepFailure
    wait_seconds: float


@dataclass(frozen=True)
class StepEnded(Event):
    """A step has ended, by itself or with the result of an earlier execution."""

    step: str
    status: StepStatus
    cached_from: str | None
    """The execution that the result comes from; None if the step ran."""
    seconds: float
    """The wall-clock time of all its attempts."""
    failure: StepFailure | None


@dataclass(frozen=True)
class StopRequested(Event):
    """A signal requests the execution's end; its jobs get time to end by themselves."""

    signal_name: str
    steps: tuple[str, ...]
    """The steps whose jobs are to end."""
    grace_seconds: float
    """How long they have; 0 when they are killed at once."""

    @property
    def sentence(self) -> str:
        names = ", ".join(self.steps[:_MOST_NAMES])
        more = len(self.steps) - _MOST_NAMES
        names += f" and {more} more" if more > 0 else ""
        if not self.grace_seconds:
            return f"{self.signal_name} again: killing {names}"
        how = "Ctrl-C again kills" if self.signal_name == "SIGINT" else "a second one kills"
        return (
            f"{self.signal_name}: waiting up to {self.grace_seconds:g} s for {names} to end; {how} "
            f"{'it' if len(self.steps) == 1 else 'them'} at once"
        )


@dataclass(frozen=True)
class StillRunning(Event):
    """Nothing has happened for a while, which is normal when jobs run for hours."""

    steps: tuple[str, ...]


@dataclass(frozen=True)
class ExecutionEnded(Event):
    execution_id: str
    status: ExecutionStatus
    failure: str | None


def follow(
    read: Callable[[], Execution],
    listener: Callable[[Event], None],
    poll_seconds: float = POLL_SECONDS,
    quiet_seconds: float = QUIET_SECONDS,
) -> Execution:
    """Report to the listener until the execution has ended. Raises what `read` raises."""
    state: Execution | None = None
    last = time.monotonic()
    while True:
        before, state = state, read()
        events = events_between(before, state, time.time())
        if not events and time.monotonic() - last >= quiet_seconds:
            running = (step.name for step in state.steps.values() if not step.status.ended)
            events = [StillRunning(tuple(running))]
        if events:
            last = time.monotonic()
        for event in events:
            listener(event)
        if state.status.ended:
            return state
        time.sleep(poll_seconds)


def events_between(
    before: ExecutionResult | None, after: ExecutionResult, now: float
) -> list[Event]:
    """What happened between two polls, in order; from the beginning if `before` is None.

    An event without a time counts as happening when the execution ended, or `now`.
    """
    earlier = {} if before is None else before.steps
    latest = now if after.ended is None else after.ended
    events: list[Event] = []
    for name, step in after.steps.items():
        events += _step_events(earlier.get(name), step, latest)
    events.sort(key=lambda event: event.at)
    if before is None:
        what = (after.execution_id, after.pipeline_name, after.reference)
        events.insert(0, ExecutionStarted(*what, at=after.started))
    if after.status.ended and (before is None or not before.status.ended):
        events.append(ExecutionEnded(after.execution_id, after.status, after.failure, at=latest))
    return events


def _step_events(before: StepResult | None, after: StepResult, latest: float) -> Iterator[Event]:
    ran_before = None if before is None else before.job_name
    if after.job_name is not None and not after.cached and after.job_name != ran_before:
        yield StepStarted(
            after.name,
            after.job_name,
            after.attempts,
            links=after.links,
            at=latest if after.started is None else after.started,
        )
    if after.status.ended and (before is None or not before.status.ended):
        yield StepEnded(
            after.name,
            after.status,
            after.cached_from,
            after.seconds,
            after.failure,
            at=latest if after.ended is None else after.ended,
        )
