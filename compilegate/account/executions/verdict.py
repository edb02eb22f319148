"""The gate's files, fetched from where the execution has put them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from compilegate.account.errors import asking
from compilegate.account.executions.state import ExecutionState
from compilegate.account.object_store import S3ObjectStore
from compilegate.account.session import AwsSession

VERDICT = "verdict.json"


def fetch_verdict(
    session: AwsSession, state: ExecutionState, folder: Path, others: Sequence[str]
) -> bool:
    """Fetch the verdict, and the other files beside it that there are, into `folder`.

    Returns whether there is a verdict: an execution that failed before the gate has none, and
    neither has a pipeline from elsewhere. Raises AwsError.
    """
    store = S3ObjectStore(session.client("s3"))
    for uri in _processing_outputs(session, state):
        if store.exists(f"{uri}/{VERDICT}"):
            for name in (VERDICT, *others):
                if name == VERDICT or store.exists(f"{uri}/{name}"):
                    store.download(f"{uri}/{name}", folder / name)
            return True
    return False


def _processing_outputs(session: AwsSession, state: ExecutionState) -> list[str]:
    """Where the processing steps of this execution have written, the last one's first: a gate has
    to wait for everything else."""
    client = session.client("sagemaker")
    uris: list[str] = []
    for step in reversed(state.steps):
        done = step.status == "Succeeded" and step.cached_from is None
        if not done or step.job is None or step.job.kind != "processing-job":
            continue
        with asking(f"read the processing job {step.job.name}"):
            job = client.describe_processing_job(ProcessingJobName=step.job.name)
        outputs = job.get("ProcessingOutputConfig", {}).get("Outputs", [])
        uris += [
            output["S3Output"]["S3Uri"].rstrip("/") for output in outputs if "S3Output" in output
        ]
    return uris
