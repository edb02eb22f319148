"""The keeper with its environment, and AWS over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from compilegate.infra.keeper import function
from tests.aws_server.client import ACCOUNT, REGION, AwsServer
from tests.keeper.account import BUCKET, GROUP, Account


@pytest.fixture
def account(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    aws.client("s3").create_bucket(Bucket=BUCKET)
    topic = aws.client("sns").create_topic(Name="notifications")["TopicArn"]
    queue = aws.client("sqs").create_queue(QueueName="reader")["QueueUrl"]
    reader = f"arn:aws:sqs:{REGION}:{ACCOUNT}:reader"
    aws.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=reader)
    aws.client("sagemaker").create_model_package_group(ModelPackageGroupName=GROUP)
    pipeline = aws.client("sagemaker").create_pipeline(
        PipelineName="topics",
        PipelineDefinition="{}",
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/pipeline",
        ClientRequestToken="p" * 32,
    )["PipelineArn"]
    for name, value in {
        **aws.environment,
        "AWS_DEFAULT_REGION": REGION,  # Lambda sets both
        "WORKLOAD": "topics",
        "PIPELINE_ARN": pipeline,
        "MODEL_PACKAGE_GROUP": GROUP,
        "BUCKET": BUCKET,
        "TOPIC_ARN": topic,
        "TAGS": json.dumps([{"Key": "compilegate:workload", "Value": "topics"}]),
    }.items():
        monkeypatch.setenv(name, value)
    function.connect.cache_clear()
    yield Account(aws, function.handler, pipeline, queue)
    function.connect.cache_clear()
