"""The target SageMaker: starts, follows and stops executions of deployed pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from compilegate.account.errors import (
    AwsError,
    DeniedError,
    VanishedError,
    absent_allowed,
    asking,
)
from compilegate.account.executions import calls
from compilegate.account.executions.calls import (
    LOG_GROUPS,
    SageMakerExecution,
    SageMakerStep,
    StartedJob,
)
from compilegate.account.object_store import S3ObjectStore
from compilegate.account.session import AwsSession
from compilegate.document.model import Scalar
from compilegate.document.step_types import PROCESSING
from compilegate.execution.events import Event
from compilegate.execution.executor import GATE_FILES
from compilegate.execution.failure import StepFailure
from compilegate.execution.looking import POLL_SECONDS, QUIET_SECONDS, follow
from compilegate.execution.outcome import NO_REASON
from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import LostError, StepStatus
from compilegate.job.names import REPROS_FOLDER, VERDICT_FILE

VERDICT = "verdict"
"""The output of a gate's job in Compilegate's own pipelines; elsewhere it may have any name."""
LAST_LINES = 20
"""The most that is shown of a failed job's log."""


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
        """Start an execution. Raises NotDeployedError when there is no such pipeline."""
        given = {name: str(value) for name, value in parameters.items()}
        token = calls.request_token(pipeline, self.token)
        return calls.start_execution(self.session, pipeline, given, token, self.at_once)

    def follow(self, reference: str, listener: Callable[[Event], None]) -> ExecutionResult:
        """Look at the execution until it ends; it continues whether or not anybody looks."""
        client = self.session.client("sagemaker")
        try:
            ended = follow(
                lambda: calls.read_execution(client, reference, self.home),
                listener,
                self.poll_seconds,
                self.quiet_seconds,
            )
        except VanishedError as error:
            raise LostError(*error.problems) from error
        except AwsError as error:
            raise LostError(
                f"{error}; the execution may continue; watch it again with: "
                f"compilegate aws watch {reference}"
            ) from error
        return self._with_logs(ended)

    def read(self, reference: str) -> ExecutionResult:
        """The execution as it is now. Raises VanishedError."""
        client = self.session.client("sagemaker")
        return calls.read_execution(client, reference, self.home)

    def stop(self, reference: str) -> None:
        """Ask the service to stop it. Raises VanishedError."""
        calls.stop_execution(self.session, reference)

    def fetch_verdict(self, result: ExecutionResult) -> bool:
        """Fetch the gate's files, the repros beside, from where the execution has put them."""
        store = S3ObjectStore(self.session.client("s3"))
        with _losing(result):
            for name, uri in self._processing_outputs(result):
                try:
                    # Listed: a role that may list its prefixes alone gets 403 for a missing object.
                    found = store.names(uri)
                except DeniedError:
                    if name == VERDICT:
                        raise
                    continue
                if VERDICT_FILE not in found:
                    continue
                for each in found:
                    if each in GATE_FILES:
                        store.download(f"{uri}/{each}", result.folder / each)
                    elif each.startswith(f"{REPROS_FOLDER}/") and ".." not in Path(each).parts:
                        # The report has links to these, and can be read without them.
                        with suppress(AwsError):
                            store.download(f"{uri}/{each}", result.folder / each)
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
        """Why it may have been stopped."""
        return (
            "stopped by someone, or because an older one was running: executions must not overlap; "
            "the next one takes what had succeeded from the cache"
        )

    def _model(self, arn: str) -> str:
        name = "/".join(arn.split("/")[-2:])
        try:
            with asking(f"read the model package {name}"):
                client = self.session.client("sagemaker")
                package = client.describe_model_package(ModelPackageName=arn)
        except AwsError as error:
            # The verdict is known, and that a model was registered: its status changes neither.
            return f"{name} ({error})"
        return f"{name}, {package.get('ModelApprovalStatus', 'without an approval status')}"

    def _processing_outputs(self, result: ExecutionResult) -> list[tuple[str, str]]:
        """What the processing steps of this execution have written, by name and URI: what is called
        the verdict first, then the last step's first, since a gate waits for everything else."""
        client = self.session.client("sagemaker")
        found = []
        for step in reversed([*result.steps.values()]):
            if step.type != PROCESSING or step.status is not StepStatus.SUCCEEDED or step.cached:
                continue
            with asking(f"read the processing job {step.job_name}"):
                job = client.describe_processing_job(ProcessingJobName=step.job_name)
            for output in job.get("ProcessingOutputConfig", {}).get("Outputs", []):
                if "S3Output" in output:
                    found.append((output["OutputName"], output["S3Output"]["S3Uri"].rstrip("/")))
        return sorted(found, key=lambda each: each[0] != VERDICT)

    def _with_logs(self, ended: SageMakerExecution) -> SageMakerExecution:
        """The same, with the log and its last lines in the failure of each step that failed."""
        steps = {
            name: replace(step, failure=self._failure(step, step.job))
            if step.status is StepStatus.FAILED and step.job is not None
            else step
            for name, step in ended.steps.items()
        }
        return replace(ended, steps=steps)

    def _failure(self, step: SageMakerStep, job: StartedJob) -> StepFailure:
        failure = replace(step.failure or StepFailure(NO_REASON), log=job.log)
        try:
            return replace(failure, last_lines=self._last_lines(job))
        except AwsError as error:
            # The failure is what matters; that its log is out of reach comes second.
            return replace(failure, unread=str(error))

    def _last_lines(self, job: StartedJob) -> tuple[str, ...]:
        """What the job printed last, oldest first; nothing where it has no log. Raises AwsError.

        A job on several machines has a stream for each; the one that was written to last counts.
        """
        group = LOG_GROUPS.get(job.kind)
        client = self.session.client("logs")
        streams, events = [], []
        with asking(f"read the log of {job.name}"), absent_allowed():
            if group is not None:
                streams = client.describe_log_streams(
                    logGroupName=group, logStreamNamePrefix=f"{job.name}/"
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
def _losing(result: ExecutionResult) -> Iterator[None]:
    try:
        yield
    except (AwsError, OSError) as error:
        raise LostError(
            f"the execution ended as {result.status}, but its results could not be read: "
            f"{error}; try again with: compilegate aws watch {result.reference}"
        ) from error
