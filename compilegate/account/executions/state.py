"""An execution on SageMaker at one moment, as types. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compilegate.account.executions.console import Job

ENDED = frozenset({"Succeeded", "Failed", "Stopped", "CompletedWithFailures"})
"""Of an execution's statuses, those that stay."""
STEP_ENDED = frozenset({"Succeeded", "Failed", "Stopped"})
_EXECUTION_ARN = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:pipeline/[A-Za-z0-9-]+/execution/[A-Za-z0-9-]+"
)


@dataclass(frozen=True)
class StepState:
    """One step of an execution, as far as it has come."""

    name: str
    type: str
    """What its result is: `TrainingJob`, `Condition`, `Fail`, ...; empty before there is one."""
    status: str
    started: datetime | None
    ended: datetime | None
    attempt: int
    job: Job | None
    """What runs or ran; for a step from the cache, the job of the earlier execution."""
    cached_from: str | None
    """ARN of the execution that the result was taken from."""
    failure: str | None
    model_package: str | None
    """ARN of what a RegisterModel step registered."""

    @property
    def seconds(self) -> float:
        """From start to end; 0 before the end."""
        if self.started is None or self.ended is None:
            return 0.0
        return max(0.0, (self.ended - self.started).total_seconds())


@dataclass(frozen=True)
class ExecutionState:
    """One execution at one moment."""

    arn: str
    status: str
    created: datetime
    changed: datetime
    failure: str | None
    steps: tuple[StepState, ...]
    """In the order in which they started."""

    @property
    def execution_id(self) -> str:
        return self.arn.rpartition("/")[2]

    @property
    def pipeline(self) -> str:
        return pipeline_of(self.arn)

    @property
    def ended(self) -> bool:
        return self.status in ENDED


def is_execution_arn(text: str) -> bool:
    """Whether a text has the form of an execution's ARN."""
    return _EXECUTION_ARN.fullmatch(text) is not None


def pipeline_of(arn: str) -> str:
    """The name of the pipeline whose execution this is."""
    return arn.split("/")[1]


def region_of(arn: str) -> str:
    return arn.split(":")[3]


def step_state(answer: Mapping[str, Any]) -> StepState:
    """One element of ListPipelineExecutionSteps."""
    metadata: Mapping[str, Any] = answer.get("Metadata", {})
    kind = next(iter(metadata), "")
    details = metadata.get(kind, {})
    arn = details.get("Arn")
    failure = answer.get("FailureReason") or details.get("ErrorMessage")
    return StepState(
        name=answer["StepName"],
        type=kind,
        status=answer["StepStatus"],
        started=answer.get("StartTime"),
        ended=answer.get("EndTime"),
        attempt=answer.get("AttemptCount") or 1,
        job=Job(arn) if arn is not None and kind.endswith("Job") else None,
        cached_from=answer.get("CacheHitResult", {}).get("SourcePipelineExecutionArn"),
        failure=failure or None,
        model_package=arn if kind == "RegisterModel" else None,
    )
