"""Sends each message once, however often its event is delivered.

A message is first claimed: its text is written to an object that can be written only once, so two
deliveries at the same moment cannot both claim it. If publishing fails, the claim is withdrawn and
the next delivery sends the message.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from notifier.links import short_name
from notifier.messages import Message

_ALREADY_THERE = "PreconditionFailed"


@dataclass(frozen=True)
class Occasion:
    """What a message is about: the same for every delivery, different when it happens again."""

    execution_arn: str
    kind: str
    occurrence: str

    def key(self, prefix: str) -> str:
        """The key of the object that claims the message."""
        digest = hashlib.sha256(self.occurrence.encode()).hexdigest()[:12]
        return f"{prefix}/{short_name(self.execution_arn)}/{self.kind}-{digest}.json"


@dataclass(frozen=True)
class Outbox:
    """Publishes to one topic, through boto3 clients for S3 and SNS."""

    s3: Any
    sns: Any
    bucket: str
    prefix: str
    topic_arn: str

    def send(self, occasion: Occasion, message: Message) -> bool:
        """Publish the message; False if it was sent before."""
        key = occasion.key(self.prefix)
        if not self._claim(key, message):
            return False
        try:
            self.sns.publish(TopicArn=self.topic_arn, Subject=message.subject, Message=message.text)
        except Exception:
            self.s3.delete_object(Bucket=self.bucket, Key=key)
            raise
        return True

    def _claim(self, key: str, message: Message) -> bool:
        body = json.dumps({"subject": message.subject, "message": message.text}, indent=2)
        try:
            self.s3.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=body.encode(),
                ContentType="application/json",
                IfNoneMatch="*",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == _ALREADY_THERE:
                return False
            raise
        return True
