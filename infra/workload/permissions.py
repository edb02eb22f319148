"""What a workload's notifier and its starters may do. Pure: ARNs in, statements out."""

from __future__ import annotations

from compilegate.access import Arns, Statement
from compilegate.access.jobs import JOB_NAMES, MANY_OBJECTS
from compilegate.access.layout import deliveries_prefix, notices_prefix, verdicts_prefix
from compilegate.access.starts import schedule_statements
from compilegate.infra.functions.permissions import EXECUTION_NAMES, function_statements

VERSIONS = "The versions in a group are numbered"


def starter_statements(
    *,
    arns: Arns,
    pipeline_arn: str,
    bucket_arn: str,
    workload: str,
    prefix: str,
    topic_arn: str,
    key_arn: str,
    dead_letter_arn: str,
    log_group: str,
) -> list[Statement]:
    """The starter: see what is delivered, keep its queue, and start this pipeline."""
    queue, notices = deliveries_prefix(workload), notices_prefix(workload)
    return [
        Statement(
            sid="SeeDeliveries",
            actions=["s3:ListBucket"],
            resources=[bucket_arn],
            conditions={"StringLike": {"s3:prefix": [f"{prefix}*", f"{queue}*", f"{notices}*"]}},
        ),
        # HeadObject, for the checksum that tells the same files from others.
        Statement(
            sid="ReadDeliveries",
            actions=["s3:GetObject"],
            resources=[f"{bucket_arn}/{prefix}*"],
            because=MANY_OBJECTS,
        ),
        Statement(
            sid="KeepTheQueue",
            actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            resources=[f"{bucket_arn}/{queue}*"],
            because=MANY_OBJECTS,
        ),
        Statement(
            sid="SeeExecutions",
            actions=["sagemaker:ListPipelineExecutions"],
            resources=[pipeline_arn],
        ),
        Statement(
            sid="SeeExecution",
            actions=["sagemaker:DescribePipelineExecution"],
            resources=[f"{pipeline_arn}/execution/*"],
            because=EXECUTION_NAMES,
        ),
        Statement(sid="TellOfTheSameFiles", actions=["sns:Publish"], resources=[topic_arn]),
        *schedule_statements(pipeline_arn=pipeline_arn, dead_letter_arn=dead_letter_arn),
        *function_statements(arns, key_arn, log_group),
    ]


def notifier_statements(
    *,
    arns: Arns,
    workload: str,
    group: str,
    pipeline_arn: str,
    bucket_arn: str,
    key_arn: str,
    topic_arn: str,
    dead_letter_arn: str,
    log_group: str,
) -> list[Statement]:
    """The notifier: see this pipeline's executions, stop one or start one again, notify people,
    attach cards."""
    return [
        Statement(
            sid="ListExecutions",
            actions=["sagemaker:DescribePipeline", "sagemaker:ListPipelineExecutions"],
            resources=[pipeline_arn],
        ),
        Statement(
            sid="FollowAndStopExecutions",
            actions=[
                "sagemaker:DescribePipelineExecution",
                "sagemaker:ListPipelineExecutionSteps",
                "sagemaker:ListPipelineParametersForExecution",
                "sagemaker:StopPipelineExecution",
            ],
            resources=[f"{pipeline_arn}/execution/*"],
            because=EXECUTION_NAMES,
        ),
        Statement(
            sid="StartAgain",
            actions=["sagemaker:StartPipelineExecution"],
            resources=[pipeline_arn],
        ),
        Statement(
            sid="FindTheGatesOutput",
            actions=["sagemaker:DescribeProcessingJob"],
            resources=[arns.sagemaker("processing-job/pipelines-*")],
            because=JOB_NAMES,
        ),
        Statement(
            sid="ReadWhatTheGateWrote",
            actions=["s3:GetObject"],
            resources=[f"{bucket_arn}/{verdicts_prefix(workload)}*"],
            because=MANY_OBJECTS,
        ),
        Statement(
            sid="RememberWhatWasSaid",
            actions=["s3:DeleteObject", "s3:PutObject"],
            resources=[f"{bucket_arn}/{notices_prefix(workload)}*"],
            because=MANY_OBJECTS,
        ),
        Statement(
            sid="SeeRegisteredModels",
            actions=["sagemaker:DescribeModelPackage"],
            resources=[arns.sagemaker(f"model-package/{group}/*")],
            because=VERSIONS,
        ),
        # A card, and nothing that would approve or reject the model.
        Statement(
            sid="AttachCards",
            actions=["sagemaker:UpdateModelPackage"],
            resources=[arns.sagemaker(f"model-package/{group}/*")],
            conditions={"Null": {"sagemaker:ModelApprovalStatus": "true"}},
            because=VERSIONS,
        ),
        Statement(sid="Notify", actions=["sns:Publish"], resources=[topic_arn]),
        Statement(sid="KeepWhatFailed", actions=["sqs:SendMessage"], resources=[dead_letter_arn]),
        *function_statements(arns, key_arn, log_group),
    ]
