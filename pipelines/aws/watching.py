"""Follow an execution until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from pipelines.aws.events import Event, events_between
from pipelines.aws.execution_state import ExecutionState
from pipelines.aws.executions import read_execution
from pipelines.aws.session import AwsSession

POLL_SECONDS = 15.0
"""Between two looks. Jobs take minutes, and an account's rate of requests is shared by all."""


def follow(
    session: AwsSession,
    arn: str,
    listener: Callable[[Event], None],
    poll_seconds: float = POLL_SECONDS,
) -> ExecutionState:
    """Tell the listener what happens, from the execution's beginning to its end.

    Returns the execution as it ended. Raises VanishedError when it is deleted meanwhile, and
    AwsError when AWS cannot be asked any longer; the execution itself then goes on.
    """
    client = session.client("sagemaker")
    state: ExecutionState | None = None
    while True:
        before, state = state, read_execution(client, arn)
        for event in events_between(before, state):
            listener(event)
        if state.ended:
            return state
        time.sleep(poll_seconds)
