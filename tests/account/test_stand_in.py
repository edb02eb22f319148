"""The server that stands in for AWS does what the tests rely on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.aws_server.client import AwsServer

pytestmark = pytest.mark.slow

ROLE = "arn:aws:iam::123456789012:role/pipeline"


def start(aws: AwsServer, token: str = "t" * 32) -> str:
    arn: str = aws.client("sagemaker").start_pipeline_execution(
        PipelineName="topics", ClientRequestToken=token
    )["PipelineExecutionArn"]
    return arn


@pytest.fixture
def pipeline(aws: AwsServer) -> AwsServer:
    aws.client("sagemaker").create_pipeline(
        PipelineName="topics",
        PipelineDefinition="{}",
        RoleArn=ROLE,
        ClientRequestToken="p" * 32,
    )
    return aws


def test_an_execution_goes_through_its_script(pipeline: AwsServer) -> None:
    pipeline.script("topics", [{"status": "Executing"}, {"status": "Succeeded"}])
    arn, sagemaker = start(pipeline), pipeline.client("sagemaker")
    seen = [
        sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)["PipelineExecutionStatus"]
        for _ in range(3)
    ]
    assert seen == ["Executing", "Succeeded", "Succeeded"]


def test_one_token_starts_one_execution(pipeline: AwsServer) -> None:
    assert start(pipeline) == start(pipeline)
    assert start(pipeline) != start(pipeline, "u" * 32)


def test_a_stopped_execution_has_stopped_steps(pipeline: AwsServer) -> None:
    running = {"StepName": "Prepare", "StepStatus": "Executing", "StartTime": 0}
    pipeline.script("topics", [{"status": "Executing", "steps": [running]}])
    arn, sagemaker = start(pipeline), pipeline.client("sagemaker")
    sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken="s" * 32)
    (step,) = sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn)[
        "PipelineExecutionSteps"
    ]
    assert step["StepStatus"] == "Stopped"
    (listed,) = sagemaker.list_pipeline_executions(PipelineName="topics")[
        "PipelineExecutionSummaries"
    ]
    assert listed["PipelineExecutionStatus"] == "Stopped"


def test_an_operation_fails_as_often_as_it_is_told(pipeline: AwsServer) -> None:
    pipeline.fail("DescribePipeline", "AccessDeniedException", message="no", after=1, times=1)
    sagemaker = pipeline.client("sagemaker")
    assert sagemaker.describe_pipeline(PipelineName="topics")["PipelineName"] == "topics"
    with pytest.raises(ClientError, match="AccessDeniedException"):
        sagemaker.describe_pipeline(PipelineName="topics")
    assert sagemaker.describe_pipeline(PipelineName="topics")["PipelineName"] == "topics"
    assert len(pipeline.calls("DescribePipeline")) == 3


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
    ("made", "wrong", "told"),
    [
        (PIPELINE, {"PipelineDefinition": {"PipelineDefinitionBody": "text"}}, "topics: Expect"),
        (PIPELINE, {"ParallelismConfiguration": {"Most": 5}}, 'Unknown parameter .*"Most"'),
        (SCHEDULE, {"FlexibleTimeWindow": {"Mode": "OFF", "W": 5}}, 'Unknown parameter .*"W"'),
    ],
)
def test_what_the_service_would_refuse_in_a_stack_is_refused(
    aws: AwsServer, made: dict[str, Any], wrong: dict[str, Any], told: str
) -> None:
    """What it takes is seen by the tests of deployments."""
    faulty = {**made, "Properties": {**made["Properties"], **wrong}}
    template = json.dumps({"Resources": {"Faulty": faulty}})
    with pytest.raises(ClientError, match=told):
        aws.client("cloudformation").create_stack(StackName="faulty", TemplateBody=template)
