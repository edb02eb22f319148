"""SageMaker as the notifier needs it: executions of one pipeline, their steps, the gate's job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

from notifier.limits import StepTime
from notifier.links import short_name
from notifier.messages import FailedStep
from notifier.overlap import EXECUTING, Execution

_JOBS = ("TrainingJob", "ProcessingJob")
ATTEMPT = "Attempt"
"""The parameter by which candidates train again."""
_NOT_RUNNING = ("ConflictException", "ResourceNotFound", "ValidationException")
"""How SageMaker answers a request to stop an execution that has already ended."""


@dataclass(frozen=True)
class Ending:
    """How an execution ended."""

    reason: str
    """In the service's words; empty if it gives none."""
    at: str
    """When it last changed: an execution that is retried and fails again ends again."""


class NoGateOutputError(Exception):
    """The gate's job has no output to read the notice from. The message names the job."""


@dataclass(frozen=True)
class Pipeline:
    """One pipeline, through a boto3 client for SageMaker."""

    client: Any
    arn: str

    def executions(self, started_arn: str) -> list[Execution]:
        """All executions that the service still lists, and the one that just started.

        The list may lag behind: an execution that is not on it yet would overlap unnoticed.
        """
        listed = self._listed()
        if started_arn in {execution.arn for execution in listed}:
            return listed
        return [*listed, *self._described(started_arn)]

    def stop(self, execution_arn: str) -> None:
        """Stop an execution, unless it has ended by itself."""
        try:
            self.client.stop_pipeline_execution(
                PipelineExecutionArn=execution_arn, ClientRequestToken=uuid4().hex
            )
        except ClientError as error:
            if error.response["Error"]["Code"] not in _NOT_RUNNING or self._runs(execution_arn):
                raise

    def start_again(self, execution_arn: str) -> str | None:
        """The ARN of a second execution with the same parameters, in which what the first one lost
        is not taken from the step cache; None where this was the second. Called twice it starts
        one."""
        pages = self.client.get_paginator("list_pipeline_parameters_for_execution").paginate(
            PipelineExecutionArn=execution_arn
        )
        given = {one["Name"]: one["Value"] for page in pages for one in page["PipelineParameters"]}
        if int(given.get(ATTEMPT, "1")) > 1:
            return None
        started = self.client.start_pipeline_execution(
            PipelineName=short_name(self.arn),
            PipelineParameters=[
                {"Name": name, "Value": value} for name, value in {**given, ATTEMPT: "2"}.items()
            ],
            PipelineExecutionDescription=f"After {short_name(execution_arn)}, which lost jobs",
            ClientRequestToken=f"compilegate-again-after-{short_name(execution_arn):>012}"[:128],
        )
        return str(started["PipelineExecutionArn"])

    def ending(self, execution_arn: str) -> Ending:
        """How an execution ended."""
        described = self._describe(execution_arn)
        return Ending(
            reason=described.get("FailureReason") or "",
            at=described["LastModifiedTime"].isoformat(),
        )

    def failed_steps(self, execution_arn: str) -> list[FailedStep]:
        """The steps that failed, in the order they began."""
        pages = self.client.get_paginator("list_pipeline_execution_steps").paginate(
            PipelineExecutionArn=execution_arn, SortOrder="Ascending"
        )
        return [
            _failed_step(step)
            for page in pages
            for step in page["PipelineExecutionSteps"]
            if step.get("StepStatus") == "Failed"
        ]

    def gate_output(self, job_arn: str) -> str:
        """The S3 URI of what the gate's job wrote. Raises NoGateOutputError when there is none."""
        job = self.client.describe_processing_job(ProcessingJobName=short_name(job_arn))
        outputs = (job.get("ProcessingOutputConfig") or {}).get("Outputs") or []
        if not outputs or "S3Output" not in outputs[0]:
            raise NoGateOutputError(f"{job_arn} has no output in S3")
        return str(outputs[0]["S3Output"]["S3Uri"]).rstrip("/")

    def registered(self, execution_arn: str, step: str) -> str | None:
        """The ARN of the model that a step registered; None where it registered none."""
        pages = self.client.get_paginator("list_pipeline_execution_steps").paginate(
            PipelineExecutionArn=execution_arn
        )
        for page in pages:
            for found in page["PipelineExecutionSteps"]:
                if found["StepName"] == step:
                    metadata = (found.get("Metadata") or {}).get("RegisterModel") or {}
                    return metadata.get("Arn")
        return None

    def card_uri(self, model_arn: str) -> str | None:
        """Where the card lies that the gate has written; None for a model that names none, or has
        its card: people may have changed it."""
        found = self.client.describe_model_package(ModelPackageName=model_arn)
        metadata = found.get("CustomerMetadataProperties") or {}
        return None if found.get("ModelCard") else metadata.get("model_card")

    def attach_card(self, model_arn: str, content: str) -> None:
        """Give a registered model its card, for people to review."""
        card = {"ModelCardContent": content, "ModelCardStatus": "PendingReview"}
        self.client.update_model_package(ModelPackageArn=model_arn, ModelCard=card)

    def step_times(self, execution_arn: str) -> list[StepTime]:
        """How long each step of an execution took, as far as it is."""
        pages = self.client.get_paginator("list_pipeline_execution_steps").paginate(
            PipelineExecutionArn=execution_arn
        )
        return [
            StepTime(
                name=step["StepName"],
                started=step.get("StartTime"),
                ended=step.get("EndTime"),
                cached="CacheHitResult" in step,
            )
            for page in pages
            for step in page["PipelineExecutionSteps"]
        ]

    def listed(self) -> list[Execution]:
        """All executions that the service lists, newest first."""
        return self._listed()

    def changed(self) -> datetime:
        """When the pipeline was deployed last."""
        found = self.client.describe_pipeline(PipelineName=short_name(self.arn))
        changed: datetime = found["LastModifiedTime"]
        return changed

    def _listed(self) -> list[Execution]:
        pages = self.client.get_paginator("list_pipeline_executions").paginate(
            PipelineName=short_name(self.arn), SortBy="CreationTime", SortOrder="Descending"
        )
        return [
            Execution(
                started=summary["StartTime"],
                arn=summary["PipelineExecutionArn"],
                status=summary["PipelineExecutionStatus"],
            )
            for page in pages
            for summary in page["PipelineExecutionSummaries"]
        ]

    def _described(self, execution_arn: str) -> list[Execution]:
        """The one execution; none when it has been deleted."""
        try:
            found = self._describe(execution_arn)
        except self.client.exceptions.ResourceNotFound:
            return []
        return [
            Execution(
                started=found["CreationTime"],
                arn=execution_arn,
                status=found["PipelineExecutionStatus"],
            )
        ]

    def _runs(self, execution_arn: str) -> bool:
        return any(item.status == EXECUTING for item in self._described(execution_arn))

    def _describe(self, execution_arn: str) -> Mapping[str, Any]:
        described: Mapping[str, Any] = self.client.describe_pipeline_execution(
            PipelineExecutionArn=execution_arn
        )
        return described


def _failed_step(step: Mapping[str, Any]) -> FailedStep:
    metadata = step.get("Metadata") or {}
    arns = [metadata[kind]["Arn"] for kind in _JOBS if "Arn" in metadata.get(kind, {})]
    return FailedStep(
        name=step["StepName"],
        type=_step_type(metadata),
        reason=step.get("FailureReason") or (metadata.get("Fail") or {}).get("ErrorMessage") or "",
        job_arn=arns[0] if arns else None,
    )


def _step_type(metadata: Mapping[str, Any]) -> str:
    """The step's type, which is only told by the key of its metadata."""
    return next(iter(metadata), "step")
