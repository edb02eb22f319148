"""The result of an execution and of its steps, and the exit status that it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from compilegate.document.model import Scalar
from compilegate.document.step_types import FAIL
from compilegate.execution import exit_codes
from compilegate.execution.status import UNSUCCESSFUL, ExecutionStatus, StepStatus

FailedBy = Literal["job", "fail-step"]
RECORDED = "Failed, recorded"
"""A job whose training failed, and which left that as evidence for the gate."""
NO_REASON = "it failed without a reason"


@dataclass(frozen=True)
class StepFailure:
    """Why one step failed."""

    sentence: str
    """What went wrong. A program's own words, or the service's, may have several lines."""
    log: Path | str | None = None
    """The whole output: a file here, or the address of a page."""
    last_lines: tuple[str, ...] = ()
    """What the job printed last, oldest first."""
    unread: str | None = None
    """Why the last lines are missing, if the log could not be read."""

    @property
    def text(self) -> str:
        return "\n".join(self._parts())

    @property
    def lines(self) -> tuple[str, ...]:
        """The text by lines, whatever the program ended its lines with."""
        return tuple(line for part in self._parts() for line in part.splitlines())

    @property
    def headline(self) -> str:
        """The first line."""
        return next(iter(self.lines), "")

    def _parts(self) -> list[str]:
        parts = [self.sentence]
        if isinstance(self.log, Path):
            parts = [f"{self.sentence}; log: {self.log}"]
        elif self.log is not None:
            parts.append(f"log: {self.log}")  # the address of a page is long
        parts += [f"  {line}" for line in self.last_lines]
        if self.unread is not None:
            parts.append(f"({self.unread})")
        return parts


@dataclass(frozen=True)
class StepResult:
    """One step so far."""

    name: str
    type: str
    """The type in the definition: `Training`, `Condition`, ..."""
    status: StepStatus = StepStatus.WAITING
    cached_from: str | None = None
    """The execution that the result comes from; None if the step ran."""
    attempts: int = 0
    job_name: str | None = None
    """The latest attempt's job; a cached step's is the job that made the result."""
    started: float | None = None
    """When the first attempt started, in seconds since the epoch."""
    seconds: float = 0.0
    """Wall-clock time from the first attempt's start to the last one's end."""
    failure: StepFailure | None = None
    log: Path | None = None
    """The latest attempt's output, if it is a file here."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Console pages, by what they show: `job`, `log`."""
    outcome: bool | None = None
    """A Condition step's branch: whether the conditions held."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """The Describe* response that expressions read, as far as it is known."""

    @property
    def cached(self) -> bool:
        return self.cached_from is not None

    @property
    def outcome_in_words(self) -> str:
        """The status, for people; RECORDED where the job recorded a failure as evidence."""
        recorded = self.status is StepStatus.SUCCEEDED and self.failure is not None
        return RECORDED if recorded else str(self.status)

    @property
    def ended(self) -> float | None:
        """When it ended, in seconds since the epoch; None before, or if unknown."""
        return self.started + self.seconds if self.started and self.status.ended else None


@dataclass(frozen=True)
class ExecutionResult:
    """One execution, ended or still running."""

    execution_id: str
    pipeline_name: str
    status: ExecutionStatus
    steps: Mapping[str, StepResult]
    """The steps by name: here in the definition's order, on SageMaker by their start."""
    parameters: Mapping[str, Scalar]
    failed_by: FailedBy | None
    """What failed the execution: a step that failed, or a Fail step that was reached."""
    failure: str | None
    """Why it did not succeed, in one sentence."""
    folder: Path
    """Where its files are on this machine, or will be once they are fetched."""
    started: float
    """Seconds since the epoch."""
    ended: float | None

    @property
    def reference(self) -> str:
        """The target's name for it."""
        return self.execution_id


def explain_failure(
    steps: Mapping[str, StepResult], status: ExecutionStatus
) -> tuple[FailedBy | None, str | None]:
    """What failed the execution, and why; empty if nothing did."""
    if status not in {ExecutionStatus.FAILED, ExecutionStatus.COMPLETED_WITH_FAILURES}:
        return None, None
    failed = [step for step in steps.values() if step.status in UNSUCCESSFUL]
    reached = next((step for step in failed if step.type == FAIL), None)
    if reached is not None:
        plain = f"the Fail step {reached.name} was reached"
        return "fail-step", plain if reached.failure is None else reached.failure.text
    reasons = [
        f"{step.name}: {step.status if step.failure is None else step.failure.headline}"
        for step in failed
    ]
    return "job", "; ".join(reasons) or None


def exit_status_of(result: ExecutionResult, when_stopped: str) -> tuple[int, tuple[str, ...]]:
    """The exit status of an ended execution, and a text for each problem.

    `when_stopped` says why one was stopped and how to continue. Where a gate has judged the
    execution, FAIL_STEP means GATE_FAILED.
    """
    match result.status:
        case ExecutionStatus.SUCCEEDED | ExecutionStatus.COMPLETED_WITH_FAILURES:
            return exit_codes.DECIDED, ()
        case ExecutionStatus.STOPPED:
            return exit_codes.INTERRUPTED, (when_stopped,)
        case _ if result.failed_by == "fail-step":
            return exit_codes.FAIL_STEP, (result.failure or NO_REASON,)
        case _:
            failed = [
                f"{step.name}: {NO_REASON if step.failure is None else step.failure.text}"
                for step in result.steps.values()
                if step.status in UNSUCCESSFUL
            ]
            return exit_codes.STEP_FAILED, tuple(failed) or (result.failure or NO_REASON,)
