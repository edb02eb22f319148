"""What the keeper is called for: the patterns of its rules, beside the names that it reads. Pure.

Three rules of EventBridge call it: one with `event_pattern`, one with `new_data_pattern` where the
workload declares new data, and one that hands it `look_input` every hour. The pipeline's two Lambda
steps call it with what `compilegate.posture.function.act` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXECUTION = "SageMaker Model Building Pipeline Execution Status Change"
PACKAGE = "SageMaker Model Package State Change"
STACK = "CloudFormation Stack Status Change"
TRANSFORM = "SageMaker Transform Job State Change"
OBJECT = "Object Created"
LOOK = "look"

CREATED, UPDATED = "CREATE_COMPLETE", "UPDATE_COMPLETE"
ROLLED_BACK, STUCK = "UPDATE_ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED"
RESTING = (CREATED, UPDATED, ROLLED_BACK, STUCK)
"""The statuses of a stack that has ended a change, and exists."""
ENDPOINT_TYPES = (
    "AWS::SageMaker::Endpoint",
    "AWS::SageMaker::EndpointConfig",
    "AWS::SageMaker::Model",
)
"""All that an endpoint's stack may hold, and that the keeper may change of it."""
LONGEST_PATTERN = 2048
"""Characters: the quota of EventBridge."""


def event_pattern(
    pipeline_arn: str,
    group: str,
    endpoint_stack_arn_prefix: str | None = None,
    batch_name_prefix: str | None = None,
) -> dict[str, Any]:
    """The event pattern of a workload.

    `endpoint_stack_arn_prefix` is `arn:...:stack/NAME/`, `batch_name_prefix` what the names of its
    batch transforms begin with, two hyphens included. Of what `$or` holds one has to match; with
    fewer than two objects it is taken for the name of a field
    (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html and
    https://github.com/aws/event-ruler, "The $or Primitive").
    """
    sources, statuses = ["aws.sagemaker"], ["Executing", "Failed", "Stopped", "Succeeded"]
    execution = {"pipelineArn": [pipeline_arn], "currentPipelineExecutionStatus": statuses}
    details: dict[str, dict[str, Any]] = {EXECUTION: execution}
    if endpoint_stack_arn_prefix or batch_name_prefix:
        details[PACKAGE] = {"ModelPackageGroupName": [group]}
    if endpoint_stack_arn_prefix:
        sources.append("aws.cloudformation")
        details[STACK] = {
            "stack-id": [{"prefix": endpoint_stack_arn_prefix}],
            "status-details": {"status": list(RESTING)},
        }
    if batch_name_prefix:
        details[TRANSFORM] = {
            "TransformJobName": [{"prefix": batch_name_prefix}],
            "TransformJobStatus": ["Failed", "Stopped"],
        }
    alternatives = [{"detail-type": [kind], "detail": details[kind]} for kind in details]
    if len(alternatives) == 1:
        return {"source": sources, **alternatives[0]}
    return {"source": sources, "$or": alternatives}


def new_data_pattern(bucket: str, prefix: str) -> dict[str, Any]:
    """Objects below the prefix of a workload's deliveries."""
    return {
        "source": ["aws.s3"],
        "detail-type": [OBJECT],
        "detail": {"bucket": {"name": [bucket]}, "object": {"key": [{"prefix": prefix}]}},
    }


def look_input(workload: str) -> Mapping[str, str]:
    """What the rule of every hour hands over."""
    return {LOOK: workload}
