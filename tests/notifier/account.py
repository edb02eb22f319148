"""An account with one pipeline, and somebody who reads its notifications."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.aws_server.client import AwsServer

BUCKET = "models"
EXECUTION_CHANGED = "SageMaker Model Building Pipeline Execution Status Change"
STEP_CHANGED = "SageMaker Model Building Pipeline Execution Step Status Change"


@dataclass
class Account:
    """What happens there is delivered to the notifier as EventBridge does."""

    aws: AwsServer
    handler: Callable[[dict[str, Any], object], dict[str, list[str]]]
    pipeline_arn: str
    topic_arn: str
    queue_url: str
    _read: list[dict[str, str]] = field(default_factory=list)

    def start(self, frames: Sequence[dict[str, Any]] = ({"status": "Executing"},)) -> str:
        """Start an execution that goes through these frames; returns its ARN."""
        self.aws.script("topics", frames)
        arn: str = self.aws.client("sagemaker").start_pipeline_execution(
            PipelineName="topics", ClientRequestToken=uuid4().hex
        )["PipelineExecutionArn"]
        return arn

    def stop(self, arn: str) -> None:
        self.aws.client("sagemaker").stop_pipeline_execution(
            PipelineExecutionArn=arn, ClientRequestToken=uuid4().hex
        )

    def statuses(self) -> list[str]:
        """Of all executions, oldest first."""
        listed = self.aws.client("sagemaker").list_pipeline_executions(
            PipelineName="topics", SortOrder="Ascending", MaxResults=100
        )["PipelineExecutionSummaries"]
        return [summary["PipelineExecutionStatus"] for summary in listed]

    def becomes(self, arn: str, status: str) -> list[str]:
        """Deliver the event that the execution's status changed; returns what was said."""
        return self.deliver(
            EXECUTION_CHANGED,
            {"pipelineExecutionArn": arn, "currentPipelineExecutionStatus": status},
        )

    def gate_succeeds(self, arn: str, job_arn: str, step: str = "Gate") -> list[str]:
        detail = {
            "pipelineExecutionArn": arn,
            "stepName": step,
            "stepType": "Processing",
            "currentStepStatus": "Succeeded",
            "metadata": {"processingJob": {"arn": job_arn}},
        }
        return self.deliver(STEP_CHANGED, detail)

    def deliver(self, kind: str, detail: dict[str, Any]) -> list[str]:
        event = {
            "version": "0",
            "id": str(uuid4()),
            "detail-type": kind,
            "source": "aws.sagemaker",
            "account": "123456789012",
            "time": "2026-08-01T03:00:00Z",
            "region": "us-east-1",
            "resources": [self.pipeline_arn],
            "detail": {"pipelineArn": self.pipeline_arn, **detail},
        }
        return self.handler(event, None)["sent"]

    def messages(self) -> list[dict[str, str]]:
        """What subscribers of the topic got so far: Subject and Message of each."""
        sqs = self.aws.client("sqs")
        while found := sqs.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            self._read += [json.loads(item["Body"]) for item in found]
            for item in found:
                sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=item["ReceiptHandle"])
        return self._read
