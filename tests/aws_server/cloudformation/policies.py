"""The policies of buckets, queues and topics."""

from __future__ import annotations

import json
from typing import Any

from tests.aws_server.cloudformation.bridge import Made, Properties, PutBridge


class BucketPolicy(PutBridge):
    type = "AWS::S3::BucketPolicy"
    service = "s3"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        client.put_bucket_policy(Bucket=properties["Bucket"], Policy=_document(properties))
        return Made(properties["Bucket"])

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        client.delete_bucket_policy(Bucket=ref)


class QueuePolicy(PutBridge):
    type = "AWS::SQS::QueuePolicy"
    service = "sqs"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        for queue in properties["Queues"]:
            client.set_queue_attributes(
                QueueUrl=queue, Attributes={"Policy": _document(properties)}
            )
        return Made(name)

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        """It goes with its queue."""


class TopicPolicy(PutBridge):
    type = "AWS::SNS::TopicPolicy"
    service = "sns"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        for topic in properties["Topics"]:
            client.set_topic_attributes(
                TopicArn=topic, AttributeName="Policy", AttributeValue=_document(properties)
            )
        return Made(name)

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        """It goes with its topic."""


def _document(properties: Properties) -> str:
    document = properties["PolicyDocument"]
    return document if isinstance(document, str) else json.dumps(document)
