"""Executions on SageMaker as types, and the calls that start, read and stop them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from pipelines.aws.console import Job
from pipelines.aws.errors import NotDeployedError, VanishedError, absent_is, asking
from pipelines.aws.session import AwsSession

ENDED = frozenset({"Succeeded", "Failed", "Stopped", "CompletedWithFailures"})
"""Of an execution's statuses, those that stay."""
STEP_ENDED = frozenset({"Succeeded", "Failed", "Stopped"})
LARGEST_PAGE = 100
"""What the service lists at most in one answer."""
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


def request_token(pipeline: str, text: str | None) -> str:
    """The ClientRequestToken for a start: with one text, two starts are one execution."""
    if text is None:
        return uuid.uuid4().hex
    return sha256(f"{len(pipeline)}:{pipeline}{text}".encode()).hexdigest()


def start_execution(
    session: AwsSession, pipeline: str, parameters: Mapping[str, str], token: str
) -> str:
    """Start an execution, or find the one that the same token has started; returns its ARN.

    Raises NotDeployedError when there is no such pipeline, else AwsError.
    """
    with asking(f"start an execution of {pipeline}"), absent_is(no_pipeline(pipeline, session)):
        answer = session.client("sagemaker").start_pipeline_execution(
            PipelineName=pipeline,
            PipelineParameters=[
                {"Name": name, "Value": value} for name, value in parameters.items()
            ],
            ClientRequestToken=token,
        )
    return str(answer["PipelineExecutionArn"])


def stop_execution(session: AwsSession, arn: str) -> None:
    """Ask the service to stop an execution; its running jobs are stopped with it."""
    with asking(f"stop the execution {arn}"), absent_is(_vanished(arn)):
        session.client("sagemaker").stop_pipeline_execution(
            PipelineExecutionArn=arn, ClientRequestToken=uuid.uuid4().hex
        )


def latest_executions(session: AwsSession, pipeline: str, most: int) -> list[str]:
    """ARNs of a pipeline's executions, newest first. Raises NotDeployedError, AwsError."""
    with asking(f"list the executions of {pipeline}"), absent_is(no_pipeline(pipeline, session)):
        answer = session.client("sagemaker").list_pipeline_executions(
            PipelineName=pipeline, SortBy="CreationTime", SortOrder="Descending", MaxResults=most
        )
    return [
        str(summary["PipelineExecutionArn"]) for summary in answer["PipelineExecutionSummaries"]
    ]


def read_execution(client: Any, arn: str) -> ExecutionState:
    """The execution as it is now. Raises VanishedError, AwsError.

    `client` is one of `sagemaker`, which whoever asks often keeps.
    """
    with asking(f"read the execution {arn}"), absent_is(_vanished(arn)):
        # The status first: of an execution that has ended, the steps that follow are final.
        described = client.describe_pipeline_execution(PipelineExecutionArn=arn)
        listed = list(_list_steps(client, arn))
    return ExecutionState(
        arn=arn,
        status=described["PipelineExecutionStatus"],
        created=described["CreationTime"],
        changed=described["LastModifiedTime"],
        failure=described.get("FailureReason") or None,
        steps=tuple(_step(step) for step in listed),
    )


def _list_steps(client: Any, arn: str) -> Iterator[dict[str, Any]]:
    pages = client.get_paginator("list_pipeline_execution_steps").paginate(
        PipelineExecutionArn=arn,
        SortOrder="Ascending",
        PaginationConfig={"PageSize": LARGEST_PAGE},
    )
    for page in pages:
        yield from page["PipelineExecutionSteps"]


def _step(answer: Mapping[str, Any]) -> StepState:
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


def _vanished(arn: str) -> VanishedError:
    return VanishedError(
        f"there is no execution {arn}: it, or its pipeline, was deleted or never existed"
    )


def no_pipeline(pipeline: str, session: AwsSession) -> NotDeployedError:
    """The sentence for a pipeline that is not there."""
    return NotDeployedError(
        f"there is no pipeline {pipeline} in {session.region}; deploy it with: make deploy"
    )
