"""The releaser as Lambda runs it, with AWS over HTTP: what people decide, and what is deployed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.aws_server.client import ACCOUNT, REGION, AwsServer

pytestmark = pytest.mark.slow
CODE = Path(__file__).parents[2] / "infra" / "releaser"
BUCKET, GROUP, ENDPOINT = "models", "trial-topics", "trial-topics"
SERVING = {
    "deploy": "real-time",
    "name": ENDPOINT,
    "role_arn": f"arn:aws:iam::{ACCOUNT}:role/serving",
    "key_arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1",
    "content_type": "application/json",
    "memory_mb": 2048,
    "max_concurrency": 5,
    "instance_type": "ml.m5.large",
    "instance_count": 2,
    "alarms": ["trial-topics-errors", "trial-topics-latency"],
    "subnets": [],
    "security_groups": [],
    "isolation": False,
    "batch_input": f"s3://{BUCKET}/requests/topics/",
    "batch_output": f"s3://{BUCKET}/answers/topics/",
    "workload": "topics",
}


@dataclass
class Account:
    """An account with one group of models, and the releaser of its workload."""

    aws: AwsServer
    releaser: Any
    minute: int = 0

    def register(self, status: str = "PendingManualApproval") -> str:
        """Another version of the group; returns its ARN."""
        number = len(self.versions()) + 1
        key = f"compilegate/workloads/topics/models/job-{number}/model/model.tar.gz"
        self.aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=f"model {number}".encode())
        arn: str = self.aws.client("sagemaker").create_model_package(
            ModelPackageGroupName=GROUP,
            ModelApprovalStatus=status,
            InferenceSpecification={
                "Containers": [{"Image": "image", "ModelDataUrl": f"s3://{BUCKET}/{key}"}],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
            CustomerMetadataProperties={"workload": "topics"},
        )["ModelPackageArn"]
        return arn

    def versions(self) -> list[dict[str, Any]]:
        listed = self.aws.client("sagemaker").list_model_packages(ModelPackageGroupName=GROUP)
        found: list[dict[str, Any]] = listed["ModelPackageSummaryList"]
        return found

    def decide(self, arn: str, status: str) -> dict[str, str]:
        """What a person does, and what comes of it."""
        self.aws.client("sagemaker").update_model_package(
            ModelPackageArn=arn, ModelApprovalStatus=status
        )
        return self.hear_of(arn, status)

    def hear_of(
        self, arn: str, status: str, *, when: str = "", changed: str = "ModelApprovalStatus"
    ) -> dict[str, str]:
        self.minute += 1
        group, _, version = arn.partition(":model-package/")[2].rpartition("/")
        return self.handle(
            "SageMaker Model Package State Change",
            {
                "ModelPackageGroupName": group,
                "ModelPackageVersion": int(version),
                "ModelApprovalStatus": status,
                "UpdatedModelPackageFields": [changed],
            },
            when or f"2999-11-23T10:{self.minute:02}:00Z",
        )

    def deployment_ends(self, how: str = "InService") -> dict[str, str]:
        self.aws.end_deployment(ENDPOINT, how)
        return self.hear_of_the_endpoint()

    def hear_of_the_endpoint(self) -> dict[str, str]:
        return self.handle("SageMaker Endpoint State Change", {"EndpointName": ENDPOINT})

    def handle(
        self, kind: str, detail: dict[str, Any], when: str = "2999-01-01T00:00:00Z"
    ) -> dict[str, str]:
        event = {"detail-type": kind, "detail": detail, "time": when}
        came: dict[str, str] = self.releaser.handler(event, None)
        return came

    @property
    def endpoint(self) -> dict[str, Any]:
        found: dict[str, Any] = self.aws.client("sagemaker").describe_endpoint(
            EndpointName=ENDPOINT
        )
        return found

    def answers_with(self) -> int:
        """The version behind the endpoint."""
        return int(self.endpoint["EndpointConfigName"].partition("--")[2].partition("-")[0])

    def messages(self) -> list[str]:
        """The subjects of what was told."""
        queue = self.aws.client("sqs").get_queue_url(QueueName="reader")["QueueUrl"]
        found = self.aws.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        told = found.get("Messages", [])
        for item in told:
            self.aws.client("sqs").delete_message(
                QueueUrl=queue, ReceiptHandle=item["ReceiptHandle"]
            )
        return [json.loads(item["Body"])["Subject"] for item in told]


@pytest.fixture
def made(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(**serving: Any) -> Account:
        topic = aws.client("sns").create_topic(Name="told")["TopicArn"]
        aws.client("sqs").create_queue(QueueName="reader")
        aws.client("sns").subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:{ACCOUNT}:reader"
        )
        aws.client("s3").create_bucket(Bucket=BUCKET)
        aws.client("sagemaker").create_model_package_group(ModelPackageGroupName=GROUP)
        variables = {
            **aws.environment,
            "AWS_DEFAULT_REGION": REGION,
            "MODEL_PACKAGE_GROUP": GROUP,
            "BUCKET": BUCKET,
            "PREFIX": "compilegate/workloads/topics/releases/",
            "TOPIC_ARN": topic,
            "SERVING": json.dumps({**SERVING, **serving}),
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.syspath_prepend(str(CODE))
        import releaser  # noqa: PLC0415  from the root that Lambda has

        releaser.connect.cache_clear()
        return Account(aws, releaser)

    return make


def test_an_approved_model_gets_an_endpoint_and_the_next_one_replaces_it(made: Any) -> None:
    account = made()
    first = account.register()
    assert account.hear_of(first, "PendingManualApproval") == {
        "approved": "none",
        "endpoint": "none",
    }
    assert "creating" in account.decide(first, "Approved")
    assert account.hear_of(first, "Approved", when="2999-11-23T10:02:00Z")["endpoint"] == "Creating"
    assert "in service" in account.deployment_ends()
    assert account.messages() == ["trial-topics: version 1 answers"]
    again = account.hear_of_the_endpoint()
    assert again["endpoint"] == "in service", "the same event twice tells nothing twice"

    second = account.register()
    came = account.decide(second, "Approved")
    assert came["from"].startswith("trial-topics--1-")
    assert account.answers_with() == 1, "until the new machines are there"
    account.deployment_ends()
    assert account.answers_with() == 2
    (update,) = account.aws.calls("UpdateEndpoint")
    guard = update["DeploymentConfig"]
    routing = guard["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]
    assert routing["Type"] == "CANARY"
    assert [each["AlarmName"] for each in guard["AutoRollbackConfiguration"]["Alarms"]] == [
        "trial-topics-errors",
        "trial-topics-latency",
    ]


def test_what_was_taken_back_is_not_tried_again_until_it_is_approved_again(made: Any) -> None:
    account = made()
    account.decide(account.register(), "Approved")
    account.deployment_ends()
    second = account.register()
    account.decide(second, "Approved")
    assert "taken back" in account.deployment_ends("RolledBack")
    assert account.answers_with() == 1
    assert account.messages()[-1] == "trial-topics: version 2 was not deployed"
    assert account.hear_of_the_endpoint()["endpoint"] == "taken back"
    assert account.messages() == []
    assert len(account.aws.calls("UpdateEndpoint")) == 1
    account.decide(second, "Rejected")
    account.decide(second, "Approved")
    account.deployment_ends()
    assert account.answers_with() == 2


def test_rejecting_the_model_that_answers_brings_back_the_one_before(made: Any) -> None:
    account = made()
    first, second = account.register(), account.register()
    for arn in (first, second):
        account.decide(arn, "Approved")
        account.deployment_ends()
    account.decide(second, "Rejected")
    # The first is as it was approved: its own deployment ended well before.
    assert account.endpoint["EndpointStatus"] == "Updating"
    account.deployment_ends()
    assert account.answers_with() == 1
    account.decide(first, "Rejected")
    assert account.answers_with() == 1, "an endpoint is not taken from those who call it"
    assert account.messages()[-1] == "trial-topics: no model is approved"


def test_two_approvals_during_a_deployment_end_with_the_later_one(made: Any) -> None:
    account = made()
    arns = [account.register() for _ in range(3)]
    account.decide(arns[0], "Approved")
    assert account.decide(arns[2], "Approved")["endpoint"] == "Creating"
    assert account.decide(arns[1], "Approved")["endpoint"] == "Creating"
    account.deployment_ends()
    account.deployment_ends()
    assert account.answers_with() == 2, "approved last, though not the newest"


def test_a_change_of_metadata_is_no_approval_and_events_may_come_late(made: Any) -> None:
    account = made()
    first, second = account.register(), account.register()
    for arn in (first, second):
        account.decide(arn, "Approved")
        account.deployment_ends()
    account.hear_of(first, "Approved", changed="CustomerMetadataProperties")
    assert account.answers_with() == 2
    account.hear_of(first, "Approved", when="2999-11-23T10:00:30Z")
    assert account.answers_with() == 2, "an event from before"


def test_an_endpoint_that_never_started_is_made_again_for_the_next_model(made: Any) -> None:
    account = made()
    account.decide(account.register(), "Approved")
    assert "taken back" in account.deployment_ends("Failed")
    second = account.register()
    with pytest.raises(Exception, match="had failed and is being deleted"):
        account.decide(second, "Approved")
    assert "creating" in account.hear_of(second, "Approved", when="2999-11-23T10:02:00Z")


def test_an_alarm_takes_a_new_serverless_model_back(made: Any) -> None:
    account = made(deploy="serverless")
    account.decide(account.register(), "Approved")
    account.deployment_ends()
    alarm = {"alarmName": "trial-topics-errors", "state": {"value": "ALARM"}}
    now = "2026-01-01T00:00:00Z"
    assert account.handle("CloudWatch Alarm State Change", alarm, now) == {
        "alarm": "trial-topics-errors"
    }, "there is nothing to go back to"
    account.decide(account.register(), "Approved")
    account.deployment_ends()
    (update,) = account.aws.calls("UpdateEndpoint")
    assert "DeploymentConfig" not in update, "SageMaker guards no serverless endpoint"
    late = "2999-01-01T00:00:00Z"
    assert "alarm" in account.handle("CloudWatch Alarm State Change", alarm, late)
    assert "taken back" in account.handle("CloudWatch Alarm State Change", alarm, now)
    account.deployment_ends()
    assert account.answers_with() == 1
    assert account.messages()[-1] == "trial-topics: the new model was taken back"
    (variant,) = account.aws.client("sagemaker").describe_endpoint_config(
        EndpointConfigName=account.endpoint["EndpointConfigName"]
    )["ProductionVariants"]
    assert variant["ServerlessConfig"] == {"MemorySizeInMB": 2048, "MaxConcurrency": 5}


def test_an_approval_starts_one_batch_transform(made: Any) -> None:
    account = made(deploy="batch")
    first = account.register()
    name = account.decide(first, "Approved")["transform"]
    again = account.hear_of(first, "Approved", when="2999-11-23T10:01:00Z")
    assert again["was started"] == name
    job = account.aws.client("sagemaker").describe_transform_job(TransformJobName=name)
    assert job["TransformOutput"]["S3OutputPath"].startswith(f"s3://{BUCKET}/answers/topics/1-")
    failed = {"TransformJobName": name, "TransformJobStatus": "Failed", "FailureReason": "no input"}
    account.handle("SageMaker Transform Job State Change", failed)
    assert account.messages() == [f"{name}: the batch transform ended as Failed"]
