"""Follow an execution until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from compilegate.account.executions.events import Event, events_between, still_running
from compilegate.account.executions.executions import read_execution
from compilegate.account.executions.state import ExecutionState
from compilegate.account.session import AwsSession

POLL_SECONDS = 15.0
"""Between two looks. Jobs take minutes, and an account's rate of requests is shared by all."""
QUIET_SECONDS = 300.0
"""After which it is told what goes on, though nothing has happened: a CI ends what says nothing."""


def follow(
    session: AwsSession,
    arn: str,
    listener: Callable[[Event], None],
    poll_seconds: float = POLL_SECONDS,
    quiet_seconds: float = QUIET_SECONDS,
) -> ExecutionState:
    """Tell the listener what happens, from the execution's beginning to its end.

    Returns the execution as it ended. Raises VanishedError when it is deleted meanwhile, and
    AwsError when AWS cannot be asked any longer; the execution itself then goes on.
    """
    client = session.client("sagemaker")
    state: ExecutionState | None = None
    told = time.monotonic()
    while True:
        before, state = state, read_execution(client, arn)
        events = events_between(before, state)
        if not events and time.monotonic() - told >= quiet_seconds:
            events = [still_running(state, datetime.now(UTC))]
        if events:
            told = time.monotonic()
        for event in events:
            listener(event)
        if state.ended:
            return state
        time.sleep(poll_seconds)
