"""The server that tests take for AWS refuses what CloudFormation would refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.aws_server.client import AwsServer

pytestmark = pytest.mark.slow

ROLE = "arn:aws:iam::123456789012:role/pipeline"
PIPELINE = {
    "Type": "AWS::SageMaker::Pipeline",
    "Properties": {
        "PipelineName": "topics",
        "RoleArn": ROLE,
        "PipelineDefinition": {
            "PipelineDefinitionBody": {"Fn::Sub": '{"Version": "${AWS::Region}"}'}
        },
    },
}
SCHEDULE = {
    "Type": "AWS::Scheduler::Schedule",
    "Properties": {
        "Name": "topics",
        "ScheduleExpression": "rate(7 days)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": "arn:aws:sagemaker:us-east-1:1:pipeline/topics", "RoleArn": ROLE},
    },
}


@pytest.mark.parametrize(
    ("resource", "wrong", "refusal"),
    [
        (PIPELINE, {"PipelineDefinition": {"PipelineDefinitionBody": "text"}}, "topics: Expect"),
        (PIPELINE, {"ParallelismConfiguration": {"Most": 5}}, 'Unknown parameter .*"Most"'),
        (SCHEDULE, {"FlexibleTimeWindow": {"Mode": "OFF", "W": 5}}, 'Unknown parameter .*"W"'),
    ],
)
def test_what_the_service_would_refuse_in_a_stack_is_refused(
    aws: AwsServer, resource: dict[str, Any], wrong: dict[str, Any], refusal: str
) -> None:
    """What it takes is seen by the tests of deployments."""
    faulty = {**resource, "Properties": {**resource["Properties"], **wrong}}
    template = json.dumps({"Resources": {"Faulty": faulty}})
    with pytest.raises(ClientError, match=refusal):
        aws.client("cloudformation").create_stack(StackName="faulty", TemplateBody=template)
