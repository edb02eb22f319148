"""What every function may do. Pure: ARNs in, statements out."""

from __future__ import annotations

from compilegate.access import Arns, Statement

EXECUTION_NAMES = "SageMaker names an execution when it starts"


def function_statements(arns: Arns, key_arn: str, log_group: str) -> list[Statement]:
    """What every function needs: its encrypted environment, and its log."""
    return [
        Statement(
            sid="UseKey",
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            resources=[key_arn],
        ),
        Statement(
            sid="WriteLogs",
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[arns.log_group(f"{log_group}:log-stream:*")],
            because="Lambda names the stream after the instance of the function",
        ),
    ]
