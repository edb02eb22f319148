"""The handler: acts on a decision about a model, and on what its endpoint and transforms report.

Errors are raised, never swallowed: Lambda then delivers the event again, and finally puts it into
the dead-letter queue, whose alarm goes off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from releaser.approvals import Approvals
from releaser.batch import Batch
from releaser.endpoint import Endpoint, Told
from releaser.facts import Facts
from releaser.models import Models
from releaser.settings import Settings, read_settings

PACKAGE = "SageMaker Model Package State Change"
ALARM = "CloudWatch Alarm State Change"
TRANSFORM = "SageMaker Transform Job State Change"
# The function has a minute, so a call that hangs is abandoned and retried.
_CONFIG = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)


def handler(event: Mapping[str, Any], _context: object) -> dict[str, str]:
    """Handle one event; returns what came of it, and prints it for the log."""
    said = connect(read_settings(os.environ)).handle(event)
    print(json.dumps(said))
    return said


@cache
def connect(settings: Settings) -> Releaser:
    """The releaser of one workload, with clients that a warm function reuses."""
    s3, sagemaker, sns = (boto3.client(name, config=_CONFIG) for name in ("s3", "sagemaker", "sns"))
    return Releaser(settings, s3, sagemaker, sns)


@dataclass(frozen=True)
class Releaser:
    """Releases the models of one workload."""

    settings: Settings
    s3: Any
    sagemaker: Any
    sns: Any

    def handle(self, event: Mapping[str, Any]) -> dict[str, str]:
        """Act on an event; says what came of it."""
        settings = self.settings
        facts = Facts(self.s3, settings.bucket, settings.prefix)
        models = Models(self.sagemaker, settings.serving)
        endpoint = Endpoint(self.sagemaker, facts, models)
        kind = event["detail-type"]
        if kind == TRANSFORM:
            return self._tell(_of_transform(event["detail"]))
        if kind == ALARM:
            return self._tell(endpoint.alarmed(event))
        approvals = Approvals(self.sagemaker, facts, settings.group)
        if kind == PACKAGE:
            approvals.remember(event)
        last = approvals.last()
        came: dict[str, str] = {"approved": "none" if last is None else last.arn}
        if settings.serving.deploy == "batch" and last is not None and kind == PACKAGE:
            return came | Batch(self.sagemaker, models).start(last)
        if settings.serving.deploy in {"serverless", "real-time"}:
            return came | self._tell(endpoint.follow(last))
        return came

    def _tell(self, told: Told) -> dict[str, str]:
        if told.subject:
            self.sns.publish(
                TopicArn=self.settings.topic_arn, Subject=told.subject[:100], Message=told.message
            )
        return told.came


def _of_transform(detail: Mapping[str, Any]) -> Told:
    name, status = detail["TransformJobName"], detail["TransformJobStatus"]
    if status == "Completed":
        return Told({"transform": status})
    return Told(
        {"transform": status},
        f"{name}: the batch transform ended as {status}",
        f"The batch transform {name} ended as {status}: "
        f"{detail.get('FailureReason', 'no reason given')}. To start it again, reject and approve "
        "the model.",
    )
