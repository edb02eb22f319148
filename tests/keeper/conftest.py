"""The keeper with its environment, and AWS over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from compilegate.infra.keeper import function
from compilegate.posture.contract import DAY_VARIABLE, TABLE_VARIABLE
from tests.aws_server.client import AwsServer
from tests.keeper.account import BUCKET, GROUP, INCOMING, Account
from tests.posture.table import TABLE


@pytest.fixture
def account(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    aws.client("s3").create_bucket(Bucket=BUCKET)
    topic = aws.client("sns").create_topic(Name="notifications")["TopicArn"]
    queue = aws.client("sqs").create_queue(QueueName="reader")["QueueUrl"]
    queue_arn = aws.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])[
        "Attributes"
    ]["QueueArn"]
    aws.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn)
    aws.client("sagemaker").create_model_package_group(ModelPackageGroupName=GROUP)
    pipeline = aws.client("sagemaker").create_pipeline(
        PipelineName="topics",
        PipelineDefinition="{}",
        RoleArn="arn:aws:iam::123456789012:role/pipeline",
        ClientRequestToken="p" * 32,
    )["PipelineArn"]
    for name, value in {
        **aws.environment,
        "AWS_DEFAULT_REGION": aws.environment["AWS_REGION"],  # Lambda sets both
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


@pytest.fixture
def with_deliveries(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setenv("NEW_DATA_PREFIX", INCOMING)
    return account


@pytest.fixture
def with_posture(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    """The account in the first week of the year of `tests.posture.scenes`."""
    monkeypatch.setenv(TABLE_VARIABLE, TABLE)
    monkeypatch.setenv(DAY_VARIABLE, "2026-01-09T06:00:00+00:00")
    return account
