"""What became of an execution and of each of its steps, so far or in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from compilegate.document.model import Scalar
from compilegate.execution.status import UNSUCCESSFUL, ExecutionStatus, StepStatus

FailedBy = Literal["job", "fail-step"]


@dataclass(frozen=True)
class StepResult:
    """One step so far."""

    name: str
    type: str
    """As in the definition: `Training`, `Condition`, ..."""
    status: StepStatus = StepStatus.WAITING
    cached_from: str | None = None
    """The execution whose result it is; None when the step ran itself."""
    attempts: int = 0
    job_name: str | None = None
    """The latest attempt's job; a cached step's is the job that made the result."""
    started: float | None = None
    """When the first attempt started, in seconds since the epoch."""
    seconds: float = 0.0
    """Wall-clock time from the first attempt's start to the last one's end."""
    failure: str | None = None
    """One sentence; the job's last lines, if any, follow it line by line."""
    log: Path | None = None
    """The latest attempt's output, where it is a file here."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Pages to look at, by what they show: `job`, `log`."""
    outcome: bool | None = None
    """Of a Condition step: which side was taken."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """The Describe* response that expressions read, as far as it is known."""

    @property
    def cached(self) -> bool:
        return self.cached_from is not None

    @property
    def ended(self) -> float | None:
        """When it ended, in seconds since the epoch; None before, or when that is not known."""
        return self.started + self.seconds if self.started and self.status.ended else None


@dataclass(frozen=True)
class ExecutionResult:
    """One execution: ended, or as far as it has come."""

    execution_id: str
    pipeline_name: str
    status: ExecutionStatus
    steps: Mapping[str, StepResult]
    """By name; here in the definition's order, on SageMaker in that of their starts."""
    parameters: Mapping[str, Scalar]
    failed_by: FailedBy | None
    """What ended a failed execution: a step that failed, or a Fail step that was reached."""
    failure: str | None
    """Why it did not succeed, in one sentence."""
    folder: Path
    """Where its files are on this machine, or will be once they are fetched."""
    started: float
    """Seconds since the epoch."""
    ended: float | None

    @property
    def reference(self) -> str:
        """What the target calls it."""
        return self.execution_id


def explain_failure(
    steps: Mapping[str, StepResult], status: ExecutionStatus
) -> tuple[FailedBy | None, str | None]:
    """What ended an execution that did not succeed, and why; nothing for any other."""
    if status not in {ExecutionStatus.FAILED, ExecutionStatus.COMPLETED_WITH_FAILURES}:
        return None, None
    failed = [step for step in steps.values() if step.status in UNSUCCESSFUL]
    reached = next((step for step in failed if step.type == "Fail"), None)
    if reached is not None:
        return "fail-step", reached.failure or f"the Fail step {reached.name} was reached"
    reasons = [f"{step.name}: {step.failure or step.status}".partition("\n")[0] for step in failed]
    return "job", "; ".join(reasons) or None
