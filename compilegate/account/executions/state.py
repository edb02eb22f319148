"""An execution on SageMaker at one moment, read from the service's answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from compilegate.account.errors import AwsError
from compilegate.account.executions.console import StartedJob
from compilegate.document.step_types import REGISTER_MODEL
from compilegate.execution.failure import StepFailure
from compilegate.execution.result import ExecutionResult, StepResult, explain_failure
from compilegate.execution.status import ExecutionStatus, StepStatus

Status = TypeVar("Status", ExecutionStatus, StepStatus)

_EXECUTION_ARN = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:pipeline/[A-Za-z0-9-]+/execution/[A-Za-z0-9-]+"
)


@dataclass(frozen=True, kw_only=True)
class SageMakerStep(StepResult):
    """One step of an execution; `cached_from` is an ARN."""

    job: StartedJob | None = None
    """What runs or ran; for a step from the cache, the job of the earlier execution."""


@dataclass(frozen=True, kw_only=True)
class SageMakerExecution(ExecutionResult):
    """One execution. The service names only steps that have started."""

    steps: Mapping[str, SageMakerStep]
    arn: str

    @property
    def reference(self) -> str:
        return self.arn


def is_execution_arn(text: str) -> bool:
    """Whether a text has the form of an execution's ARN."""
    return _EXECUTION_ARN.fullmatch(text) is not None


def region_of(arn: str) -> str:
    return arn.split(":")[3]


def known(statuses: type[Status], said: str) -> Status:
    """The status that the service names. Raises AwsError for one that came up later."""
    try:
        return statuses(said)
    except ValueError as error:
        raise AwsError(
            f"SageMaker answers with the status {said!r}, allowed: {', '.join(statuses)}; "
            "a newer version of this program may know it"
        ) from error


def execution_state(
    arn: str, described: Mapping[str, Any], listed: Sequence[Mapping[str, Any]], home: Path
) -> SageMakerExecution:
    """The execution, from DescribePipelineExecution and ListPipelineExecutionSteps.

    Its files are fetched into `home`.
    """
    execution_id = arn.rpartition("/")[2]
    status = known(ExecutionStatus, described["PipelineExecutionStatus"])
    steps = {step.name: step for step in map(step_state, listed)}
    failed_by, failure = explain_failure(steps, status)
    return SageMakerExecution(
        arn=arn,
        execution_id=execution_id,
        pipeline_name=arn.split("/")[1],
        status=status,
        steps=steps,
        parameters={},
        failed_by=failed_by,
        failure=failure or described.get("FailureReason") or None,
        folder=home / "aws" / execution_id,
        started=described["CreationTime"].timestamp(),
        ended=described["LastModifiedTime"].timestamp() if status.ended else None,
    )


def step_state(answer: Mapping[str, Any]) -> SageMakerStep:
    """One element of ListPipelineExecutionSteps."""
    metadata: Mapping[str, Any] = answer.get("Metadata", {})
    # The service says what a step has made, and nothing before there is something.
    made = next(iter(metadata), "")
    details = metadata.get(made, {})
    arn = details.get("Arn")
    job = StartedJob(arn) if arn is not None and made.endswith("Job") else None
    started, ended = answer.get("StartTime"), answer.get("EndTime")
    failure = answer.get("FailureReason") or details.get("ErrorMessage")
    properties: dict[str, Any] = {"ModelPackageArn": arn} if made == REGISTER_MODEL else {}
    if answers := details.get("OutputParameters"):
        properties["OutputParameters"] = {each["Name"]: each["Value"] for each in answers}
    return SageMakerStep(
        name=answer["StepName"],
        type=made.removesuffix("Job"),
        status=known(StepStatus, answer["StepStatus"]),
        cached_from=answer.get("CacheHitResult", {}).get("SourcePipelineExecutionArn"),
        attempts=answer.get("AttemptCount") or 1,
        job_name=None if job is None else job.name,
        started=None if started is None else started.timestamp(),
        seconds=max(0.0, (ended - started).total_seconds()) if started and ended else 0.0,
        failure=StepFailure(failure) if failure else None,
        links={} if job is None else job.pages,
        properties=properties,
        job=job,
    )
