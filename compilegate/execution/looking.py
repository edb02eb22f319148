"""Follows an execution at a target that sends no events, by polling.

A step that started and ended between two polls is reported all the same, and each event once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from compilegate.execution.events import (
    Event,
    ExecutionEnded,
    ExecutionStarted,
    StepEnded,
    StepStarted,
    StillRunning,
)
from compilegate.execution.result import ExecutionResult, StepResult

Execution = TypeVar("Execution", bound=ExecutionResult)

POLL_SECONDS = 15.0
"""Seconds between two polls. Jobs take minutes, and an account's request rate is shared."""
QUIET_SECONDS = 300.0
"""The longest silence: CI ends a job that prints nothing for too long."""


def follow(
    look: Callable[[], Execution],
    listener: Callable[[Event], None],
    poll_seconds: float = POLL_SECONDS,
    quiet_seconds: float = QUIET_SECONDS,
) -> Execution:
    """Report to the listener from the execution's beginning to its end.

    Returns the execution as it ended. Raises what `look` raises.
    """
    state: Execution | None = None
    told = time.monotonic()
    while True:
        before, state = state, look()
        events = events_between(before, state, time.time())
        if not events and time.monotonic() - told >= quiet_seconds:
            events = [still_running(state)]
        if events:
            told = time.monotonic()
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
        events.insert(
            0,
            ExecutionStarted(
                after.execution_id, after.pipeline_name, after.reference, at=after.started
            ),
        )
    if after.status.ended and (before is None or not before.status.ended):
        events.append(ExecutionEnded(after.execution_id, after.status, after.failure, at=latest))
    return events


def still_running(state: ExecutionResult) -> StillRunning:
    """What an execution is doing while nothing happens."""
    return StillRunning(tuple(s.name for s in state.steps.values() if not s.status.ended))


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
