"""What an ended execution means for a script: an exit status, and why it is not 0. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.execution import exit_codes
from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import UNSUCCESSFUL, ExecutionStatus

NO_REASON = "it failed without a reason"


@dataclass(frozen=True)
class Outcome:
    """The exit status, and a text for each problem.

    Where a gate has judged the execution, FAIL_STEP means GATE_FAILED.
    """

    exit_status: int
    problems: tuple[str, ...] = ()


def outcome_of(result: ExecutionResult, when_stopped: str) -> Outcome:
    """The execution's outcome; `when_stopped` says why one was stopped and how to continue."""
    match result.status:
        case ExecutionStatus.SUCCEEDED | ExecutionStatus.COMPLETED_WITH_FAILURES:
            return Outcome(exit_codes.DECIDED)
        case ExecutionStatus.STOPPED:
            return Outcome(exit_codes.INTERRUPTED, (when_stopped,))
        case _ if result.failed_by == "fail-step":
            return Outcome(exit_codes.FAIL_STEP, (result.failure or NO_REASON,))
        case _:
            failed = [
                f"{step.name}: {NO_REASON if step.failure is None else step.failure.text}"
                for step in result.steps.values()
                if step.status in UNSUCCESSFUL
            ]
            return Outcome(exit_codes.STEP_FAILED, tuple(failed) or (result.failure or NO_REASON,))
