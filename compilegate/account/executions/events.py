"""What happens in an execution, told from what two looks at it differ in. Pure.

The service sends no events to a terminal; an execution is looked at again and again instead. A
step that started and ended between two looks is told of all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from compilegate.account.executions.console import Job
from compilegate.account.executions.state import STEP_ENDED, ExecutionState, StepState


@dataclass(frozen=True)
class ExecutionStarted:
    """The execution is there."""

    arn: str
    at: datetime


@dataclass(frozen=True)
class JobStarted:
    """A step's job is there; an attempt above 1 is the service's own retry."""

    step: str
    at: datetime
    attempt: int
    job: Job


@dataclass(frozen=True)
class StepEnded:
    """A step is over, by its own work or with the result of an earlier execution."""

    step: str
    at: datetime
    status: str
    seconds: float
    cached_from: str | None
    failure: str | None


@dataclass(frozen=True)
class StillRunning:
    """Nothing has happened for a while, which is how it is while jobs run for hours."""

    at: datetime
    steps: tuple[str, ...]


@dataclass(frozen=True)
class ExecutionEnded:
    """Nothing runs any more."""

    at: datetime
    status: str


Event = ExecutionStarted | JobStarted | StepEnded | StillRunning | ExecutionEnded


def events_between(before: ExecutionState | None, after: ExecutionState) -> list[Event]:
    """What happened from one look to the next, in order; from the beginning when `before` is None.

    Whatever looks are taken in between, each end is told of once.
    """
    earlier = {} if before is None else {step.name: step for step in before.steps}
    events: list[Event] = []
    for step in after.steps:
        events += _step_events(earlier.get(step.name), step, after)
    events.sort(key=lambda event: event.at)
    if before is None:
        events.insert(0, ExecutionStarted(after.arn, after.created))
    if after.ended and (before is None or not before.ended):
        events.append(ExecutionEnded(after.changed, after.status))
    return events


def still_running(state: ExecutionState, at: datetime) -> StillRunning:
    """What an execution is at, for want of news."""
    going = (step.name for step in state.steps if step.status not in STEP_ENDED)
    return StillRunning(at, tuple(going))


def _step_events(
    before: StepState | None, after: StepState, now: ExecutionState
) -> Iterator[Event]:
    job = after.job
    if job is not None and after.cached_from is None and (before is None or before.job != job):
        yield JobStarted(after.name, after.started or now.changed, after.attempt, job)
    if after.status in STEP_ENDED and (before is None or before.status not in STEP_ENDED):
        yield StepEnded(
            step=after.name,
            at=after.ended or now.changed,
            status=after.status,
            seconds=after.seconds,
            cached_from=after.cached_from,
            failure=after.failure,
        )
