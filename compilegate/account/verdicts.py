"""What is left of the executions of a deployed pipeline: the service's list, the kept verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compilegate.account.errors import absent_is, asking
from compilegate.account.executions.calls import no_pipeline
from compilegate.account.object_store import parts_of
from compilegate.account.session import AwsSession
from compilegate.job.names import VERDICT_FILE


@dataclass(frozen=True, kw_only=True)
class PastExecution:
    """One execution, with as much as is left of it."""

    execution: str
    started: float
    """Seconds since the epoch; of one that the service has forgotten, when its verdict was kept."""
    status: str
    """As the service says it; `unknown` of one that it has forgotten."""
    verdict: bytes | None
    """Its text; None where it has left none."""


def past_executions(session: AwsSession, pipeline: str, verdicts: str) -> list[PastExecution]:
    """All executions of a pipeline, with what lies below the URI `verdicts` as EXECUTION/, oldest
    first. One whose pipeline was deleted since is there by its verdict. Raises AwsError."""
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
    found = [
        PastExecution(
            execution=execution,
            started=started,
            status=status,
            verdict=kept.pop(execution, (0.0, None))[1],
        )
        for execution, started, status in _listed(session, pipeline)
    ]
    forgotten = [
        PastExecution(execution=execution, started=when, status="unknown", verdict=text)
        for execution, (when, text) in kept.items()
    ]
    return sorted([*found, *forgotten], key=lambda one: one.started)


def _listed(session: AwsSession, pipeline: str) -> Iterator[tuple[str, float, str]]:
    with asking(f"list the executions of {pipeline}"), absent_is(no_pipeline(pipeline, session)):
        for one in session.listed(
            "sagemaker",
            "list_pipeline_executions",
            "PipelineExecutionSummaries",
            PipelineName=pipeline,
        ):
            yield (
                one["PipelineExecutionArn"].rpartition("/")[2],
                one["StartTime"].timestamp(),
                one["PipelineExecutionStatus"],
            )
