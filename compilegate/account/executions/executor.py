"""The target SageMaker: starts, follows and stops executions of deployed pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from compilegate.account.errors import AwsError, VanishedError, absent_allowed, asking
from compilegate.account.executions import calls
from compilegate.account.executions.console import LOG_GROUPS, StartedJob
from compilegate.account.executions.state import SageMakerExecution, SageMakerStep
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
    poll_seconds: float = POLL_SECONDS
    quiet_seconds: float = QUIET_SECONDS

    def start(self, pipeline: str, parameters: Mapping[str, Scalar]) -> str:
        """Start an execution. Raises NotDeployedError when there is no such pipeline."""
        given = {name: str(value) for name, value in parameters.items()}
        token = calls.request_token(pipeline, self.token)
        return calls.start_execution(self.session, pipeline, given, token)

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
        """Fetch the gate's files from where the execution has put them."""
        store = S3ObjectStore(self.session.client("s3"))
        with _losing(result):
            for uri in self._processing_outputs(result):
                if store.exists(f"{uri}/{VERDICT_FILE}"):
                    for name in GATE_FILES:
                        if name == VERDICT_FILE or store.exists(f"{uri}/{name}"):
                            store.download(f"{uri}/{name}", result.folder / name)
                    self._fetch_repros(store, f"{uri}/{REPROS_FOLDER}", result)
                    return True
        return False

    @staticmethod
    def _fetch_repros(store: S3ObjectStore, uri: str, result: ExecutionResult) -> None:
        """Fetch the scripts that the report has links to; it can be read without them."""
        with suppress(AwsError):
            for name in store.names(uri):
                if ".." not in PurePosixPath(name).parts:
                    store.download(f"{uri}/{name}", result.folder / REPROS_FOLDER / name)

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

    def _processing_outputs(self, result: ExecutionResult) -> Iterator[str]:
        """Where the processing steps of this execution have written, the last one's first: a gate
        waits for everything else."""
        client = self.session.client("sagemaker")
        for step in reversed([*result.steps.values()]):
            if step.type != PROCESSING or step.status is not StepStatus.SUCCEEDED or step.cached:
                continue
            with asking(f"read the processing job {step.job_name}"):
                job = client.describe_processing_job(ProcessingJobName=step.job_name)
            for output in job.get("ProcessingOutputConfig", {}).get("Outputs", []):
                if "S3Output" in output:
                    yield output["S3Output"]["S3Uri"].rstrip("/")

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
