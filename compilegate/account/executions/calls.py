"""The calls that start, read, list and stop executions on SageMaker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from compilegate.account.errors import NotDeployedError, VanishedError, absent_is, asking
from compilegate.account.executions.state import SageMakerExecution, execution_state, known
from compilegate.account.session import AwsSession
from compilegate.execution.status import ExecutionStatus

LARGEST_PAGE = 100
"""What the service lists at most in one answer."""


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


def execution_parameters(session: AwsSession, arn: str) -> dict[str, str]:
    """What an execution was given, by the name of the parameter. Raises AwsError."""
    with asking(f"read the parameters of {arn}"):
        found = session.listed(
            "sagemaker",
            "list_pipeline_parameters_for_execution",
            "PipelineParameters",
            PipelineExecutionArn=arn,
        )
        return {each["Name"]: each["Value"] for each in found}


def stop_execution(session: AwsSession, arn: str) -> None:
    """Ask the service to stop an execution; its running jobs are stopped with it."""
    with asking(f"stop the execution {arn}"), absent_is(_vanished(arn)):
        session.client("sagemaker").stop_pipeline_execution(
            PipelineExecutionArn=arn, ClientRequestToken=uuid.uuid4().hex
        )


def latest_executions(session: AwsSession, pipeline: str, most: int) -> list[str]:
    """ARNs of a pipeline's executions, newest first. Raises NotDeployedError, AwsError."""
    return [arn for arn, _ in _latest(session, pipeline, most)]


def running_execution(session: AwsSession, pipeline: str) -> str | None:
    """The ARN of the latest execution that has not ended. Raises NotDeployedError, AwsError."""
    latest = _latest(session, pipeline, LARGEST_PAGE)
    return next((arn for arn, status in latest if not known(ExecutionStatus, status).ended), None)


def _latest(session: AwsSession, pipeline: str, most: int) -> list[tuple[str, str]]:
    with asking(f"list the executions of {pipeline}"), absent_is(no_pipeline(pipeline, session)):
        answer = session.client("sagemaker").list_pipeline_executions(
            PipelineName=pipeline, SortBy="CreationTime", SortOrder="Descending", MaxResults=most
        )
    return [
        (summary["PipelineExecutionArn"], summary["PipelineExecutionStatus"])
        for summary in answer["PipelineExecutionSummaries"]
    ]


def read_execution(client: Any, arn: str, home: Path = Path()) -> SageMakerExecution:
    """The execution as it is now. Raises VanishedError, AwsError.

    `client` is one of `sagemaker`, which whoever asks often keeps.
    """
    with asking(f"read the execution {arn}"), absent_is(_vanished(arn)):
        # The status first: of an execution that has ended, the steps that follow are final.
        described = client.describe_pipeline_execution(PipelineExecutionArn=arn)
        listed = list(list_steps(client, arn))
    return execution_state(arn, described, listed, home)


def list_steps(client: Any, arn: str) -> Iterator[dict[str, Any]]:
    """The steps of an execution that have started, as the service describes them."""
    pages = client.get_paginator("list_pipeline_execution_steps").paginate(
        PipelineExecutionArn=arn,
        SortOrder="Ascending",
        PaginationConfig={"PageSize": LARGEST_PAGE},
    )
    for page in pages:
        yield from page["PipelineExecutionSteps"]


def _vanished(arn: str) -> VanishedError:
    return VanishedError(
        f"there is no execution {arn}: it, or its pipeline, was deleted or never existed"
    )


def no_pipeline(pipeline: str, session: AwsSession) -> NotDeployedError:
    """The sentence for a pipeline that is not there."""
    return NotDeployedError(
        f"there is no pipeline {pipeline} in {session.region}; deploy it with: make deploy"
    )
