"""The topic that tells people what needs their attention."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from compilegate.access import Arns
from compilegate.infra.parts import service_principal


class Notifications(Construct):
    """An encrypted topic; this project's alarms and budgets may publish to it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        project: str,
        key: kms.IKey,
        email: str | None,
    ) -> None:
        super().__init__(scope, id)
        self.topic = sns.Topic(self, "Topic", topic_name=name, master_key=key, enforce_ssl=True)
        alarms = Arns.of(Stack.of(self)).of_service("cloudwatch", f"alarm:{project}-*")
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="PublishAlarms",
                principals=[service_principal(self, "cloudwatch", source_arn=alarms)],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
            )
        )
        # Budgets tell when the month's limit is near.
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="PublishBudgets",
                principals=[service_principal(self, "budgets")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
            )
        )
        if email is not None:
            # pyrefly: ignore[bad-argument-type]  # the CDK names a parameter in two ways
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
