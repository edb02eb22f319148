"""What is left of the executions of a deployed pipeline: the service's list, the kept verdicts."""

from __future__ import annotations

from collections.abc import Iterator

from compilegate.account.errors import absent_is, asking
from compilegate.account.executions.calls import no_pipeline
from compilegate.account.object_store import parts_of
from compilegate.account.session import AwsSession
from compilegate.job.names import VERDICT_FILE


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
        for one in session.listed(
            "sagemaker",
            "list_pipeline_executions",
            "PipelineExecutionSummaries",
            PipelineName=pipeline,
        ):
            execution = one["PipelineExecutionArn"].rpartition("/")[2]
            _, verdict = kept.pop(execution, (0.0, None))
            yield execution, one["StartTime"].timestamp(), one["PipelineExecutionStatus"], verdict
    for execution, (when, verdict) in kept.items():
        yield execution, when, "unknown", verdict
