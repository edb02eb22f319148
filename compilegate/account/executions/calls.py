"""Executions on SageMaker: the calls that start, read, list and stop them, and their answers."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from compilegate.account.errors import AwsError, NotDeployedError, VanishedError, absent_is, asking
from compilegate.account.object_store import parts_of
from compilegate.account.session import AwsSession
from compilegate.document.step_types import REGISTER_MODEL
from compilegate.execution.failure import StepFailure
from compilegate.execution.result import ExecutionResult, StepResult, explain_failure
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.job.names import VERDICT_FILE

Status = TypeVar("Status", ExecutionStatus, StepStatus)

LARGEST_PAGE = 100
"""What the service lists at most in one answer."""
LOG_GROUPS = {
    "training-job": "/aws/sagemaker/TrainingJobs",
    "processing-job": "/aws/sagemaker/ProcessingJobs",
    "transform-job": "/aws/sagemaker/TransformJobs",
}
"""Where the service puts a job's output, by the kind of job."""
_PAGES = {
    "training-job": "jobs",
    "processing-job": "processing-jobs",
    "transform-job": "transform-jobs",
}
_DOMAINS = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}
_EXECUTION_ARN = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:pipeline/[A-Za-z0-9-]+/execution/[A-Za-z0-9-]+"
)


@dataclass(frozen=True)
class StartedJob:
    """What a step started, as its ARN names it."""

    arn: str

    @property
    def kind(self) -> str:
        """`training-job`, `processing-job` or another word of the service's."""
        return self.arn.split(":", 5)[5].partition("/")[0]

    @property
    def name(self) -> str:
        return self.arn.partition("/")[2]

    @property
    def page(self) -> str | None:
        """The job's page in the console; None when it has none."""
        page = _PAGES.get(self.kind)
        return page and f"{self._console('sagemaker')}#/{page}/{self.name}"

    @property
    def log(self) -> str | None:
        """The page of what the job printed; None when it has no log."""
        group = LOG_GROUPS.get(self.kind)
        if group is None:
            return None
        # The console decodes what follows the # twice.
        escaped = group.replace("/", "$252F")
        stream = f"$3FlogStreamNameFilter$3D{self.name}$252F"
        return f"{self._console('cloudwatch')}#logsV2:log-groups/log-group/{escaped}{stream}"

    @property
    def pages(self) -> dict[str, str]:
        """The pages that there are, by what they show."""
        pages = {"job": self.page, "log": self.log}
        return {name: page for name, page in pages.items() if page is not None}

    def _console(self, service: str) -> str:
        _, partition, _, region, *_ = self.arn.split(":")
        return f"{console(partition, region)}/{service}/home?region={region}"


def console(partition: str, region: str) -> str:
    """What the addresses of the console begin with."""
    return f"https://{region}.{_DOMAINS.get(partition, 'console.aws.amazon.com')}"


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


def request_token(pipeline: str, text: str | None) -> str:
    """The ClientRequestToken for a start: with one text, two starts are one execution."""
    if text is None:
        return uuid.uuid4().hex
    return sha256(f"{len(pipeline)}:{pipeline}{text}".encode()).hexdigest()


def start_execution(
    session: AwsSession,
    pipeline: str,
    parameters: Mapping[str, str],
    token: str,
    at_once: int | None = None,
) -> str:
    """Start an execution, or find the one that the same token has started; returns its ARN.

    `at_once` bounds its parallel steps; without it, the pipeline's own bound holds.
    Raises NotDeployedError when there is no such pipeline, else AwsError.
    """
    bound = {} if at_once is None else {"MaxParallelExecutionSteps": at_once}
    with asking(f"start an execution of {pipeline}"), absent_is(no_pipeline(pipeline, session)):
        answer = session.client("sagemaker").start_pipeline_execution(
            PipelineName=pipeline,
            PipelineParameters=[
                {"Name": name, "Value": value} for name, value in parameters.items()
            ],
            ClientRequestToken=token,
            **({"ParallelismConfiguration": bound} if bound else {}),
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


def past_executions(
    session: AwsSession, pipeline: str, verdicts: str
) -> Iterator[tuple[str, float, str, bytes | None]]:
    """The ID, start, status and verdict of each execution of a pipeline, whose verdicts lie below
    the URI `verdicts` as EXECUTION/. Raises AwsError.

    One that the service has forgotten, as when its pipeline was deleted since, is there by its
    verdict: its status is `unknown`, and its start is when the verdict was kept.
    """
    client = session.client("s3")
    bucket, prefix = parts_of(verdicts)
    kept: dict[str, tuple[float, bytes]] = {}
    with asking(f"read the verdicts in {verdicts}"):
        where = {"Bucket": bucket, "Prefix": f"{prefix}/"}
        for item in session.listed("s3", "list_objects_v2", "Contents", **where):
            execution, _, name = item["Key"].removeprefix(f"{prefix}/").partition("/")
            if name == VERDICT_FILE:
                body = client.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
                kept[execution] = item["LastModified"].timestamp(), body
    with asking(f"list the executions of {pipeline}"), absent_is(no_pipeline(pipeline, session)):
        for one in executions_since(session, pipeline):
            execution = one["PipelineExecutionArn"].rpartition("/")[2]
            _, verdict = kept.pop(execution, (0.0, None))
            yield execution, one["StartTime"].timestamp(), one["PipelineExecutionStatus"], verdict
    for execution, (when, verdict) in kept.items():
        yield execution, when, "unknown", verdict


def executions_since(session: AwsSession, pipeline: str, **since: Any) -> Iterator[dict[str, Any]]:
    """The service's summaries of all executions of a pipeline."""
    return session.listed(
        "sagemaker",
        "list_pipeline_executions",
        "PipelineExecutionSummaries",
        PipelineName=pipeline,
        **since,
    )


def read_execution(client: Any, arn: str, home: Path = Path()) -> SageMakerExecution:
    """The execution as it is now; its files are fetched into `home`.

    `client` is one of `sagemaker`, which whoever asks often keeps. Raises VanishedError, AwsError.
    """
    with asking(f"read the execution {arn}"), absent_is(_vanished(arn)):
        # The status first: of an execution that has ended, the steps that follow are final.
        described = client.describe_pipeline_execution(PipelineExecutionArn=arn)
        listed = list(list_steps(client, arn))
    return _execution(arn, described, listed, home)


def list_steps(client: Any, arn: str) -> Iterator[dict[str, Any]]:
    """The steps of an execution that have started, as the service describes them."""
    pages = client.get_paginator("list_pipeline_execution_steps").paginate(
        PipelineExecutionArn=arn,
        SortOrder="Ascending",
        PaginationConfig={"PageSize": LARGEST_PAGE},
    )
    for page in pages:
        yield from page["PipelineExecutionSteps"]


def known(statuses: type[Status], said: str) -> Status:
    """The status that the service names. Raises AwsError for one that came up later."""
    try:
        return statuses(said)
    except ValueError as error:
        raise AwsError(
            f"SageMaker answers with the status {said!r}, allowed: {', '.join(statuses)}; "
            "a newer version of this program may know it"
        ) from error


def _execution(
    arn: str, described: Mapping[str, Any], listed: Sequence[Mapping[str, Any]], home: Path
) -> SageMakerExecution:
    execution_id = arn.rpartition("/")[2]
    status = known(ExecutionStatus, described["PipelineExecutionStatus"])
    steps = {step.name: step for step in map(_step, listed)}
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


def _step(answer: Mapping[str, Any]) -> SageMakerStep:
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


def _vanished(arn: str) -> VanishedError:
    return VanishedError(
        f"there is no execution {arn}: it, or its pipeline, was deleted or never existed"
    )


def no_pipeline(pipeline: str, session: AwsSession) -> NotDeployedError:
    """The sentence for a pipeline that is not there."""
    return NotDeployedError(
        f"there is no pipeline {pipeline} in {session.region}; deploy it with: make deploy"
    )
