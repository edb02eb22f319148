"""The queue of what could not be delivered: starts of the pipeline, and events for functions."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct


class DeadLetters(Construct):
    """An encrypted queue that keeps its messages for as long as a queue can."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.queue = sqs.Queue(
            self,
            "Queue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        cdk.Validations.of(self.queue).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions-SQS3", reason="This is the dead-letter queue of the others."
            )
        )

    def accept_from(self, rule_arn: str) -> None:
        """Let this EventBridge rule put what it could not deliver here."""
        self.queue.add_to_resource_policy(
            iam.PolicyStatement(
                # pyrefly: ignore[bad-argument-type]  # the CDK names a parameter in two ways
                principals=[iam.ServicePrincipal("events.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[self.queue.queue_arn],
                conditions={"ArnEquals": {"aws:SourceArn": rule_arn}},
            )
        )
