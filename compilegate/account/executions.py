"""The target SageMaker: executions of deployed pipelines, started, followed, read and stopped."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from compilegate.access.console import job_pages, log_group
from compilegate.account.errors import (
    AwsError,
    DeniedError,
    NotDeployedError,
    VanishedError,
    absent_allowed,
    absent_is,
    aws_errors,
)
from compilegate.account.object_store import download, names_below, parts_of
from compilegate.account.registry import described_model
from compilegate.account.session import AwsSession
from compilegate.document.model import Scalar
from compilegate.document.step_types import PROCESSING, REGISTER_MODEL
from compilegate.execution.events import POLL_SECONDS, QUIET_SECONDS, Event, follow
from compilegate.execution.executor import GATE_FILES
from compilegate.execution.result import (
    NO_REASON,
    ExecutionResult,
    StepFailure,
    StepResult,
    explain_failure,
)
from compilegate.execution.status import ExecutionStatus, LostError, StepStatus
from compilegate.job.contract import REPROS_FOLDER, VERDICT_FILE

Status = TypeVar("Status", ExecutionStatus, StepStatus)

LARGEST_PAGE = 100
"""What the service lists at most in one answer."""
VERDICT = "verdict"
"""The output of a gate's job in Compilegate's own pipelines; elsewhere it may have any name."""
LAST_LINES = 20
"""The most that is shown of a failed job's log."""
_EXECUTION_ARN = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:pipeline/[A-Za-z0-9-]+/execution/[A-Za-z0-9-]+"
)


def is_execution_arn(text: str) -> bool:
    return _EXECUTION_ARN.fullmatch(text) is not None


@dataclass(frozen=True, kw_only=True)
class SageMakerExecution(ExecutionResult):
    """One execution. The service names only steps that have started."""

    arn: str

    @property
    def reference(self) -> str:
        return self.arn


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
    with (
        aws_errors(f"start an execution of {pipeline}"),
        absent_is(_no_pipeline(pipeline, session)),
    ):
        answer = session.client("sagemaker").start_pipeline_execution(
            PipelineName=pipeline,
            PipelineParameters=[
                {"Name": name, "Value": value} for name, value in parameters.items()
            ],
            ClientRequestToken=token,
            **({"ParallelismConfiguration": bound} if bound else {}),
        )
    return str(answer["PipelineExecutionArn"])


def stop_execution(session: AwsSession, arn: str) -> None:
    """Ask the service to stop an execution; its running jobs are stopped with it."""
    with aws_errors(f"stop the execution {arn}"), absent_is(_vanished(arn)):
        session.client("sagemaker").stop_pipeline_execution(
            PipelineExecutionArn=arn, ClientRequestToken=uuid.uuid4().hex
        )


def read_pipeline(session: AwsSession, name: str) -> str:
    """The definition of a deployed pipeline, JSON. Raises NotDeployedError, AwsError."""
    with aws_errors(f"read the pipeline {name}"), absent_is(_no_pipeline(name, session)):
        answer = session.client("sagemaker").describe_pipeline(PipelineName=name)
    return str(answer["PipelineDefinition"])


def execution_parameters(session: AwsSession, arn: str) -> dict[str, str]:
    """What an execution was given, by the name of the parameter. Raises AwsError."""
    operation, member = "list_pipeline_parameters_for_execution", "PipelineParameters"
    with aws_errors(f"read the parameters of {arn}"):
        found = session.listed("sagemaker", operation, member, PipelineExecutionArn=arn)
        return {each["Name"]: each["Value"] for each in found}


def executions_of(session: AwsSession, pipeline: str, **since: Any) -> Iterator[dict[str, Any]]:
    """The service's summaries of a pipeline's executions, newest first."""
    with (
        aws_errors(f"list the executions of {pipeline}"),
        absent_is(_no_pipeline(pipeline, session)),
    ):
        yield from session.listed(
            "sagemaker",
            "list_pipeline_executions",
            "PipelineExecutionSummaries",
            PipelineName=pipeline,
            SortBy="CreationTime",
            SortOrder="Descending",
            MaxResults=LARGEST_PAGE,
            **since,
        )


def latest_executions(session: AwsSession, pipeline: str, most: int) -> list[str]:
    """ARNs of a pipeline's executions, newest first. Raises NotDeployedError, AwsError."""
    return [each["PipelineExecutionArn"] for each in islice(executions_of(session, pipeline), most)]


def running_execution(session: AwsSession, pipeline: str) -> str | None:
    """The ARN of the latest execution that has not ended. Raises NotDeployedError, AwsError."""
    for each in islice(executions_of(session, pipeline), LARGEST_PAGE):
        if not known(ExecutionStatus, each["PipelineExecutionStatus"]).ended:
            return str(each["PipelineExecutionArn"])
    return None


def past_executions(
    session: AwsSession, pipeline: str, verdicts: str
) -> Iterator[tuple[str, float, str, bytes | None]]:
    """The ID, start, status and verdict of each execution of a pipeline, whose verdicts lie below
    the URI `verdicts` as EXECUTION/. Raises AwsError.

    One that the service has forgotten, as when its pipeline was deleted since, is there by its
    verdict: its status is `unknown`, and its start is when the verdict was kept.
    """
    client = session.client("s3")
    bucket, prefix = parts_of(f"{verdicts}/")
    stored: dict[str, tuple[float, bytes]] = {}
    with aws_errors(f"read the verdicts in {verdicts}"):
        for item in session.listed(
            "s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix
        ):
            execution, _, name = item["Key"].removeprefix(prefix).partition("/")
            if name == VERDICT_FILE:
                body = client.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
                stored[execution] = item["LastModified"].timestamp(), body
    for one in executions_of(session, pipeline):
        execution = one["PipelineExecutionArn"].rpartition("/")[2]
        _, verdict = stored.pop(execution, (0.0, None))
        yield execution, one["StartTime"].timestamp(), one["PipelineExecutionStatus"], verdict
    for execution, (when, verdict) in stored.items():
        yield execution, when, "unknown", verdict


def read_execution(session: AwsSession, arn: str, home: Path = Path()) -> SageMakerExecution:
    """The execution as it is now; its files are fetched into `home`. Raises VanishedError."""
    client = session.client("sagemaker")
    with aws_errors(f"read the execution {arn}"), absent_is(_vanished(arn)):
        # The status first: of an execution that has ended, the steps that follow are final.
        described = client.describe_pipeline_execution(PipelineExecutionArn=arn)
        steps = {step.name: step for step in map(_step, list_steps(session, arn))}
    execution_id = arn.rpartition("/")[2]
    status = known(ExecutionStatus, described["PipelineExecutionStatus"])
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


def list_steps(session: AwsSession, arn: str) -> Iterator[dict[str, Any]]:
    """The steps of an execution that have started, as the service describes them."""
    return session.listed(
        "sagemaker",
        "list_pipeline_execution_steps",
        "PipelineExecutionSteps",
        PipelineExecutionArn=arn,
        SortOrder="Ascending",
        MaxResults=LARGEST_PAGE,
    )


def known(statuses: type[Status], name: str) -> Status:
    """The status that the service names. Raises AwsError for one that came up later."""
    try:
        return statuses(name)
    except ValueError as error:
        raise AwsError(
            f"SageMaker answers with the status {name!r}, allowed: {', '.join(statuses)}; "
            "a newer version of this program may know it"
        ) from error


def _step(answer: Mapping[str, Any]) -> StepResult:
    metadata: Mapping[str, Any] = answer.get("Metadata", {})
    # The service says what a step has made, and nothing before there is something.
    made = next(iter(metadata), "")
    details = metadata.get(made, {})
    arn = details.get("Arn")
    is_job = arn is not None and made.endswith("Job")
    started, ended = answer.get("StartTime"), answer.get("EndTime")
    failure = answer.get("FailureReason") or details.get("ErrorMessage")
    properties: dict[str, Any] = {"ModelPackageArn": arn} if made == REGISTER_MODEL else {}
    if answers := details.get("OutputParameters"):
        properties["OutputParameters"] = {each["Name"]: each["Value"] for each in answers}
    return StepResult(
        name=answer["StepName"],
        type=made.removesuffix("Job"),
        status=known(StepStatus, answer["StepStatus"]),
        cached_from=answer.get("CacheHitResult", {}).get("SourcePipelineExecutionArn"),
        attempts=answer.get("AttemptCount") or 1,
        job_name=arn.partition("/")[2] if is_job else None,
        started=None if started is None else started.timestamp(),
        seconds=max(0.0, (ended - started).total_seconds()) if started and ended else 0.0,
        failure=StepFailure(failure) if failure else None,
        links=job_pages(arn) if is_job else {},
        properties=properties,
    )


def _vanished(arn: str) -> VanishedError:
    return VanishedError(
        f"there is no execution {arn}: it, or its pipeline, was deleted or never existed"
    )


def _no_pipeline(pipeline: str, session: AwsSession) -> NotDeployedError:
    return NotDeployedError(
        f"there is no pipeline {pipeline} in {session.region}; deploy it with: make deploy"
    )


@dataclass(frozen=True, kw_only=True)
class SageMakerExecutor:
    """Executes pipelines that are deployed. An execution is referred to by its ARN."""

    session: AwsSession
    home: Path
    """Where what comes out of an execution is fetched to: HOME/aws/EXECUTION."""
    token: str | None = None
    """With the same token, two starts are one execution."""
    at_once: int | None = None
    """The most steps that a start runs in parallel; None for the pipeline's own bound."""
    poll_seconds: float = POLL_SECONDS
    quiet_seconds: float = QUIET_SECONDS

    def start(self, pipeline: str, parameters: Mapping[str, Scalar]) -> str:
        given = {name: str(value) for name, value in parameters.items()}
        token = request_token(pipeline, self.token)
        return start_execution(self.session, pipeline, given, token, self.at_once)

    def follow(self, reference: str, listener: Callable[[Event], None]) -> ExecutionResult:
        """Look at the execution until it ends; it continues whether or not anybody looks."""
        try:
            ended = follow(
                lambda: self.read(reference), listener, self.poll_seconds, self.quiet_seconds
            )
        except VanishedError as error:
            raise LostError(*error.problems) from error
        except AwsError as error:
            raise LostError(
                f"{error}; the execution may continue; watch it again with: "
                f"compilegate aws watch {reference}"
            ) from error
        steps = {name: self._with_log(step) for name, step in ended.steps.items()}
        return replace(ended, steps=steps)

    def read(self, reference: str) -> SageMakerExecution:
        return read_execution(self.session, reference, self.home)

    def stop(self, reference: str) -> None:
        stop_execution(self.session, reference)

    def fetch_verdict(self, result: ExecutionResult) -> bool:
        """Fetch the gate's files, the repros beside, from where the execution has put them."""
        with _results_lost(result):
            for name, uri in self._processing_outputs(result):
                try:
                    # Listed: a role that may list its prefixes alone gets 403 for a missing object.
                    found = names_below(self.session, uri)
                except DeniedError:
                    if name == VERDICT:
                        raise
                    continue
                if VERDICT_FILE not in found:
                    continue
                for each in found:
                    if each in GATE_FILES:
                        download(self.session, f"{uri}/{each}", result.folder / each)
                    elif each.startswith(f"{REPROS_FOLDER}/") and ".." not in Path(each).parts:
                        # The report has links to these, and can be read without them.
                        with suppress(AwsError):
                            download(self.session, f"{uri}/{each}", result.folder / each)
                return True
        return False

    def models(self, result: ExecutionResult) -> Sequence[str]:
        """The model packages that it registered, with their approval status now."""
        return [
            self._model(step.properties["ModelPackageArn"])
            for step in result.steps.values()
            if "ModelPackageArn" in step.properties and step.status is StepStatus.SUCCEEDED
        ]

    def when_stopped(self, _result: ExecutionResult) -> str:
        return (
            "stopped by someone, or because an older one was running: executions must not overlap; "
            "the next one takes what had succeeded from the cache"
        )

    def _model(self, arn: str) -> str:
        name = "/".join(arn.split("/")[-2:])
        try:
            return f"{name}, {described_model(self.session, arn).approval}"
        except AwsError as error:
            # The verdict is known, and that a model was registered: its status changes neither.
            return f"{name} ({error})"

    def _processing_outputs(self, result: ExecutionResult) -> list[tuple[str, str]]:
        """What the processing steps of this execution have written, by name and URI: what is called
        the verdict first, then the last step's first, since a gate waits for everything else."""
        client = self.session.client("sagemaker")
        found = []
        for step in reversed([*result.steps.values()]):
            if step.type != PROCESSING or step.status is not StepStatus.SUCCEEDED or step.cached:
                continue
            with aws_errors(f"read the processing job {step.job_name}"):
                job = client.describe_processing_job(ProcessingJobName=step.job_name)
            for output in job.get("ProcessingOutputConfig", {}).get("Outputs", []):
                if "S3Output" in output:
                    found.append((output["OutputName"], output["S3Output"]["S3Uri"].rstrip("/")))
        return sorted(found, key=lambda each: each[0] != VERDICT)

    def _with_log(self, step: StepResult) -> StepResult:
        """The same, with the log and its last lines in the failure of one whose job failed."""
        if step.status is not StepStatus.FAILED or step.job_name is None:
            return step
        failure = replace(step.failure or StepFailure(NO_REASON), log=step.links.get("log"))
        try:
            return replace(step, failure=replace(failure, last_lines=self._last_lines(step)))
        except AwsError as error:
            # The failure is what matters; that its log is out of reach comes second.
            return replace(step, failure=replace(failure, unread=str(error)))

    def _last_lines(self, step: StepResult) -> tuple[str, ...]:
        """What the job printed last, oldest first; nothing where it has no log. A job on several
        machines has a stream for each; the one that was written to last counts."""
        if "log" not in step.links:
            return ()
        client, group = self.session.client("logs"), log_group(step.type)
        events = []
        with aws_errors(f"read the log of {step.job_name}"), absent_allowed():
            streams = client.describe_log_streams(
                logGroupName=group, logStreamNamePrefix=f"{step.job_name}/"
            )["logStreams"]
            if streams:
                latest = max(streams, key=lambda stream: stream.get("lastEventTimestamp", 0))
                events = client.get_log_events(
                    logGroupName=group,
                    logStreamName=latest["logStreamName"],
                    limit=LAST_LINES,
                    startFromHead=False,
                )["events"]
        return tuple(str(event["message"]).rstrip() for event in events)


@contextmanager
def _results_lost(result: ExecutionResult) -> Iterator[None]:
    try:
        yield
    except (AwsError, OSError) as error:
        raise LostError(
            f"the execution ended as {result.status}, but its results could not be read: "
            f"{error}; try again with: compilegate aws watch {result.reference}"
        ) from error
