"""What the function of a posture may do, and who is told of its changes. Pure."""

from __future__ import annotations

from compilegate.access import Arns, Statement
from compilegate.access.jobs import NO_RESOURCE
from compilegate.access.starts import schedule_statements
from compilegate.infra.functions.permissions import EXECUTION_NAMES, function_statements


def posture_statements(
    *,
    arns: Arns,
    pipeline_arn: str,
    table_arn: str,
    key_arn: str,
    dead_letter_arn: str,
    log_group: str,
) -> list[Statement]:
    """The posture's function: keep the record, and make up for an execution that failed."""
    return [
        Statement(
            sid="KeepTheRecord",
            actions=["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"],
            resources=[table_arn],
        ),
        # DynamoDB asks for the table's key in the name of who reads or writes.
        Statement(
            sid="UseTheTablesKey",
            actions=["kms:DescribeKey", "kms:Encrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo"],
            resources=[key_arn],
            conditions={
                "StringEquals": {"kms:ViaService": f"dynamodb.{arns.region}.amazonaws.com"}
            },
        ),
        Statement(
            sid="SeeWhatFailed",
            actions=[
                "sagemaker:DescribePipelineExecution",
                "sagemaker:ListPipelineExecutionSteps",
                "sagemaker:ListPipelineParametersForExecution",
            ],
            resources=[f"{pipeline_arn}/execution/*"],
            because=EXECUTION_NAMES,
        ),
        *schedule_statements(pipeline_arn=pipeline_arn, dead_letter_arn=dead_letter_arn),
        *function_statements(arns, key_arn, log_group),
    ]


def change_statements(*, stream_arn: str) -> list[Statement]:
    """Whoever is told of a posture's changes: read the stream of its decisions."""
    return [
        Statement(
            sid="ReadDecisions",
            actions=[
                "dynamodb:DescribeStream",
                "dynamodb:GetRecords",
                "dynamodb:GetShardIterator",
            ],
            resources=[stream_arn],
        ),
        Statement(
            sid="FindTheStream",
            actions=["dynamodb:ListStreams"],
            resources=["*"],
            because=NO_RESOURCE,
        ),
    ]
