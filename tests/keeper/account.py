"""An account with one workload, and somebody who reads its messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from moto.events.models import EventPattern

from compilegate.infra.keeper import subscriptions
from tests.aws_server.client import ACCOUNT, REGION, AwsServer

BUCKET, GROUP, STACK = "models", "trial-topics", "trial-endpoint-topics"
INCOMING, OWN = "incoming/topics/", "compilegate/workloads/topics"
STACKS = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}/"


@dataclass
class Account:
    """What happens there is delivered to the keeper as EventBridge does."""

    aws: AwsServer
    handler: Callable[[dict[str, Any], object], dict[str, Any]]
    pipeline_arn: str
    queue: str
    minute: int = 0
    _read: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sagemaker = self.aws.client("sagemaker")

    def event(self, kind: str, source: str, detail: dict[str, Any], **more: str) -> dict[str, Any]:
        """One event that a rule of the keeper lets through; returns what came of it."""
        event = {"id": str(uuid4()), "detail-type": kind, "source": source, "detail": detail}
        event |= {"time": "2026-11-23T10:00:00Z", **more}
        patterns = (
            subscriptions.event_pattern(self.pipeline_arn, GROUP, STACKS, "trial-topics--"),
            subscriptions.new_data_pattern(BUCKET, INCOMING),
        )
        assert any(EventPattern(None, each).matches_event(event) for each in patterns), event
        return self.handler(event, None)

    def look(self) -> list[str]:
        sent: list[str] = self.handler(dict(subscriptions.look_input("topics")), None)["sent"]
        return sent

    # Executions

    def start(self, *frames: dict[str, Any]) -> str:
        """Start an execution that goes through these frames, or on; returns its ARN."""
        self.aws.script("topics", frames or [{"status": "Executing"}])
        arn: str = self.sagemaker.start_pipeline_execution(
            PipelineName="topics", ClientRequestToken=uuid4().hex
        )["PipelineExecutionArn"]
        return arn

    def stop(self, arn: str) -> None:
        self.sagemaker.stop_pipeline_execution(
            PipelineExecutionArn=arn, ClientRequestToken=uuid4().hex
        )

    def executions(self) -> dict[str, str]:
        """The status of each by its ARN, oldest first."""
        listed = self.sagemaker.list_pipeline_executions(
            PipelineName="topics", SortOrder="Ascending", MaxResults=100
        )["PipelineExecutionSummaries"]
        return {each["PipelineExecutionArn"]: each["PipelineExecutionStatus"] for each in listed}

    def statuses(self) -> list[str]:
        return [*self.executions().values()]

    def starts(self) -> list[dict[str, str]]:
        """The parameters of each execution that was started, oldest first."""
        return [
            {each["Name"]: each["Value"] for each in call.get("PipelineParameters", [])}
            for call in self.aws.calls("StartPipelineExecution")
        ]

    def becomes(self, arn: str, status: str) -> dict[str, Any]:
        """Deliver the event that the execution's status changed."""
        detail = {
            "pipelineArn": self.pipeline_arn,
            "pipelineExecutionArn": arn,
            "currentPipelineExecutionStatus": status,
        }
        return self.event(subscriptions.EXECUTION, "aws.sagemaker", detail)

    # What is in the bucket, and what people got

    def write(self, key: str, content: str = "{}") -> None:
        self.aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=content.encode())

    def notice(self, arn: str, **members: Any) -> None:
        """What the gate of an execution left."""
        notice = {"send": False, "subject": "topics: baseline released", "message": "Why.\n"}
        key = f"{OWN}/verdicts/{arn.rpartition('/')[2]}/notice.json"
        self.write(key, json.dumps({**notice, **members}))

    def messages(self) -> list[dict[str, str]]:
        """What subscribers of the topic got so far: Subject and Message of each."""
        sqs = self.aws.client("sqs")
        while found := sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            self._read += [json.loads(item["Body"]) for item in found]
            for item in found:
                sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=item["ReceiptHandle"])
        return self._read

    def subjects(self) -> list[str]:
        return [message["Subject"] for message in self.messages()]

    # Models

    def register(self, **metadata: str) -> str:
        """Another version of the group; returns its ARN."""
        arn: str = self.sagemaker.create_model_package(
            ModelPackageGroupName=GROUP,
            ModelApprovalStatus="PendingManualApproval",
            InferenceSpecification={
                "Containers": [{"Image": "image", "ModelDataUrl": f"s3://{BUCKET}/model.tar.gz"}],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
            CustomerMetadataProperties={"workload": "topics", **metadata},
        )["ModelPackageArn"]
        return arn

    def decide(self, arn: str, status: str) -> dict[str, Any]:
        """What a person does, and what comes of it."""
        self.sagemaker.update_model_package(ModelPackageArn=arn, ModelApprovalStatus=status)
        self.minute += 1
        return self.hear_of(arn, status)

    def hear_of(
        self, arn: str, status: str, changed: Sequence[str] = ("ModelApprovalStatus",)
    ) -> dict[str, Any]:
        detail = {
            "ModelPackageGroupName": GROUP,
            "ModelPackageVersion": int(arn.rpartition("/")[2]),
            "ModelApprovalStatus": status,
            "UpdatedModelPackageFields": changed,
        }
        time = f"2026-11-23T10:{self.minute:02}:00Z"
        return self.event(subscriptions.PACKAGE, "aws.sagemaker", detail, time=time)

    def described(self, arn: str) -> dict[str, Any]:
        found: dict[str, Any] = self.sagemaker.describe_model_package(ModelPackageName=arn)
        return found
