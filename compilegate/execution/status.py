"""Where an execution runs, and the states of an execution and its steps, in SageMaker's words."""

from __future__ import annotations

from enum import Enum, StrEnum

from compilegate.errors import CompilegateError


class Target(Enum):
    """Where a workload can run, which decides its compilers, images and instances."""

    SAGEMAKER = "SageMaker"
    HERE = "here"


class StepStatus(StrEnum):
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
        return self in {self.SUCCEEDED, self.FAILED, self.STOPPED, self.NOT_EXECUTED}


class ExecutionStatus(StrEnum):
    EXECUTING = "Executing"
    STOPPING = "Stopping"
    SUCCEEDED = "Succeeded"
    COMPLETED_WITH_FAILURES = "CompletedWithFailures"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def ended(self) -> bool:
        return self not in {self.EXECUTING, self.STOPPING}


UNSUCCESSFUL = frozenset({StepStatus.FAILED, StepStatus.STOPPED})


class LostError(CompilegateError):
    """Contact with an execution is lost; it may still be running."""
