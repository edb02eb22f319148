"""Who may start a pipeline besides people. Pure: ARNs in, statements out."""

from __future__ import annotations

from compilegate.access.statement import Statement


def schedule_statements(*, pipeline_arn: str, dead_letter_arn: str | None) -> list[Statement]:
    """The scheduler: start this pipeline, and put failed starts into the queue, if there is one."""
    start = Statement(
        sid="StartPipeline",
        actions=["sagemaker:StartPipelineExecution"],
        resources=[pipeline_arn],
    )
    if dead_letter_arn is None:
        return [start]
    return [
        start,
        Statement(sid="KeepWhatFailed", actions=["sqs:SendMessage"], resources=[dead_letter_arn]),
    ]
