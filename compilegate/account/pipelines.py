"""A deployed pipeline, as the service holds it."""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.account.errors import absent_is, asking
from compilegate.account.executions.calls import no_pipeline
from compilegate.account.session import AwsSession


@dataclass(frozen=True)
class DeployedPipeline:
    """What DescribePipeline says of it."""

    name: str
    definition: str
    """JSON."""
    max_parallel_steps: int | None


def read_pipeline(session: AwsSession, name: str) -> DeployedPipeline:
    """Raises NotDeployedError when there is no such pipeline, AwsError."""
    with asking(f"read the pipeline {name}"), absent_is(no_pipeline(name, session)):
        answer = session.client("sagemaker").describe_pipeline(PipelineName=name)
    parallelism = answer.get("ParallelismConfiguration") or {}
    return DeployedPipeline(
        name=answer["PipelineName"],
        definition=answer["PipelineDefinition"],
        max_parallel_steps=parallelism.get("MaxParallelExecutionSteps"),
    )
