"""The states of an execution and its steps, in SageMaker's words, which all targets share."""

from __future__ import annotations

from enum import StrEnum

from compilegate.errors import CompilegateError


class StepStatus(StrEnum):
    """The state of a step."""

    WAITING = "Waiting"
    STARTING = "Starting"
    EXECUTING = "Executing"
    STOPPING = "Stopping"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    NOT_EXECUTED = "NotExecuted"

    @property
    def ended(self) -> bool:
        """Whether it is final."""
        return self in _STEP_ENDS


class ExecutionStatus(StrEnum):
    """The state of an execution."""

    EXECUTING = "Executing"
    STOPPING = "Stopping"
    SUCCEEDED = "Succeeded"
    COMPLETED_WITH_FAILURES = "CompletedWithFailures"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def ended(self) -> bool:
        """Whether it is final."""
        return self not in {ExecutionStatus.EXECUTING, ExecutionStatus.STOPPING}


_STEP_ENDS = frozenset(
    {StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.STOPPED, StepStatus.NOT_EXECUTED}
)
UNSUCCESSFUL = frozenset({StepStatus.FAILED, StepStatus.STOPPED})


class LostError(CompilegateError):
    """Contact with an execution is lost; it may still be running."""
