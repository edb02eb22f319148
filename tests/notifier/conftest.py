"""The notifier as Lambda runs it: its folder on the path, its environment, AWS over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.aws_server.client import AwsServer
from tests.notifier.account import BUCKET, Account

CODE = Path(__file__).parents[2] / "infra" / "notifier"


@pytest.fixture(autouse=True)
def _on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CODE))


@pytest.fixture
def account(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Account:
    from notifier import handler  # noqa: PLC0415  on the path only in these tests

    aws.client("s3").create_bucket(Bucket=BUCKET)
    topic = aws.client("sns").create_topic(Name="notifications")["TopicArn"]
    sqs = aws.client("sqs")
    queue = sqs.create_queue(QueueName="reader")["QueueUrl"]
    queue_arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    aws.client("sns").subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=queue_arn["Attributes"]["QueueArn"]
    )
    pipeline = aws.client("sagemaker").create_pipeline(
        PipelineName="topics",
        PipelineDefinition="{}",
        RoleArn="arn:aws:iam::123456789012:role/pipeline",
        ClientRequestToken="p" * 32,
    )["PipelineArn"]
    for name, value in {
        **aws.environment,
        "AWS_DEFAULT_REGION": aws.environment["AWS_REGION"],  # Lambda sets both
        "TOPIC_ARN": topic,
        "PIPELINE_ARN": pipeline,
        "BUCKET": BUCKET,
        "WORKLOAD": "topics",
    }.items():
        monkeypatch.setenv(name, value)
    return Account(aws, handler, pipeline, topic, queue)
