"""The function that starts builds, waits for room in the account's quota, and tells of failures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from compilegate.access import Arns
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.functions import DeadLetters, EventFunction, log_name
from compilegate.infra.images.permissions import builder_statements
from compilegate.infra.project import Project

ASK_AGAIN = "rate(5 minutes)"
"""How often a build is asked for again while the account's quota has no room for it."""
WEEKLY = "cron(0 6 ? * MON *)"
"""When it is looked whether base images have patches."""
ALARM_SECONDS = 300


class Builder(Construct):
    """Hears of deployments and of the ends of builds; has a rule that asks again, which is switched
    on only while something waits."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        foundation: FoundationStack,
        images: Sequence[str],
        base_repository_arns: Sequence[str],
    ) -> None:
        super().__init__(scope, id)
        stack, names = cdk.Stack.of(self), project.names
        arns = Arns.of(stack)
        builds = [names.build_project(image) for image in images]
        self.dead_letters = DeadLetters(self, "DeadLetters")
        self.function = EventFunction(
            self,
            "Starter",
            name=names.builder,
            description=f"Starts the image builds of {project.settings.project}, and tells of them",
            code=Path(__file__).parents[1] / "builder",
            handler="builder.handler",
            variables={
                "BUILD_PROJECTS": " ".join(builds),
                "WAITING_RULE": names.waiting_rule,
                "TOPIC_ARN": foundation.topic.topic_arn,
            },
            statements=builder_statements(
                arns=arns,
                build_arns=[arns.of_service("codebuild", f"project/{build}") for build in builds],
                repository_arns=foundation.repository_arns(images),
                base_repository_arns=base_repository_arns,
                rule_arn=arns.of_service("events", f"rule/{names.waiting_rule}"),
                topic_arn=foundation.topic.topic_arn,
                key_arn=foundation.key.key_arn,
                dead_letter_arn=self.dead_letters.queue.queue_arn,
                log_group=log_name(names.builder),
            ),
            key=foundation.key,
            log_days=project.settings.storage.log_days,
            dead_letters=self.dead_letters,
        )
        self.function.subscribe(
            "Deployed",
            {
                "source": ["aws.cloudformation"],
                "detail-type": ["CloudFormation Stack Status Change"],
                "detail": {
                    "stack-id": [stack.stack_id],
                    "status-details": {"status": ["CREATE_COMPLETE", "UPDATE_COMPLETE"]},
                },
            },
        )
        self.function.subscribe(
            "Ended",
            {
                "source": ["aws.codebuild"],
                "detail-type": ["CodeBuild Build State Change"],
                "detail": {"project-name": builds, "build-status": ENDS},
            },
        )
        self.function.call_on("Patches", WEEKLY, {"act": "bases"})
        self._rule_that_asks_again(names.waiting_rule)
        self._alarms(names.builder, foundation.topic.topic_arn)

    def _rule_that_asks_again(self, name: str) -> None:
        """Off when it is made: the function switches it on and off, and a deployment that changes
        nothing in it leaves it as it is."""
        rule = events.CfnRule(
            self,
            "Waiting",
            name=name,
            description="Asks again for builds for which the account's quota had no room",
            schedule_expression=ASK_AGAIN,
            state="DISABLED",
            targets=[{"id": "Function", "arn": self.function.function.attr_arn}],
        )
        lambda_.CfnPermission(
            self,
            "WaitingPermission",
            action="lambda:InvokeFunction",
            function_name=self.function.function.ref,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
        )

    def _alarms(self, name: str, topic_arn: str) -> None:
        for end, description, namespace, metric, dimension in (
            ("errors", "failed; its log says why", "AWS/Lambda", "Errors", ("FunctionName", name)),
            (
                "lost",
                "could not be told of a deployment or a build; it is in the dead-letter queue",
                "AWS/SQS",
                "ApproximateNumberOfMessagesVisible",
                ("QueueName", self.dead_letters.queue.queue_name),
            ),
        ):
            cloudwatch.CfnAlarm(
                self,
                end.capitalize(),
                alarm_name=f"{name}-{end}",
                alarm_description=f"The function {name}, which starts image builds, {description}",
                namespace=namespace,
                metric_name=metric,
                dimensions=[{"name": dimension[0], "value": dimension[1]}],
                statistic="Maximum",
                period=ALARM_SECONDS,
                evaluation_periods=1,
                threshold=1,
                comparison_operator="GreaterThanOrEqualToThreshold",
                treat_missing_data="notBreaching",
                alarm_actions=[topic_arn],
            )


ENDS = ["FAILED", "FAULT", "STOPPED", "SUCCEEDED", "TIMED_OUT"]
"""A build that has ended leaves room in the quota."""
