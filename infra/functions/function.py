"""A function that acts on events of one workload: its role, its log, its code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from compilegate.access import Statement
from compilegate.account.settings.declaration import LogDays
from compilegate.infra.functions.dead_letters import DeadLetters
from compilegate.infra.parts import log_group, scoped_role

RUNTIME = "python3.14"
SECONDS = 60
MEGABYTES = 256


class EventFunction(Construct):
    """A small Python function whose failures end in the dead-letter queue."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        description: str,
        code: Path,
        handler: str,
        variables: Mapping[str, str],
        statements: Sequence[Statement],
        key: kms.IKey,
        log_days: LogDays,
        dead_letters: DeadLetters,
    ) -> None:
        super().__init__(scope, id)
        self._dead_letters = dead_letters
        log = log_group(self, "Logs", name=log_name(name), key=key, days=log_days)
        role = scoped_role(
            self,
            "Role",
            # Lambda accepts only roles of its own account, and does not say which function asks.
            # pyrefly: ignore[bad-argument-type]  # the CDK names a parameter in two ways
            trusted=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=description,
            statements=statements,
        )
        archive = assets.Asset(
            self, "Code", path=str(code), exclude=["__pycache__", "**/__pycache__", "**/*.pyc"]
        )
        self.function = lambda_.CfnFunction(
            self,
            "Function",
            function_name=name,
            description=description,
            runtime=RUNTIME,
            architectures=["arm64"],
            handler=handler,
            code={"s3Bucket": archive.s3_bucket_name, "s3Key": archive.s3_object_key},
            role=role.role_arn,
            timeout=SECONDS,
            memory_size=MEGABYTES,
            kms_key_arn=key.key_arn,
            environment={"variables": dict(variables)},
            dead_letter_config={"targetArn": dead_letters.queue.queue_arn},
            logging_config={"logGroup": log.ref, "logFormat": "JSON"},
        )

    def subscribe(self, id: str, pattern: Mapping[str, Any], *, enabled: bool = True) -> None:
        """Call the function for events that match; what cannot be delivered goes to the queue."""
        rule = events.CfnRule(
            self,
            id,
            description=f"{', '.join(pattern['detail-type'])}, for {self.node.id.lower()}",
            event_pattern=dict(pattern),
            state="ENABLED" if enabled else "DISABLED",
            targets=[
                {
                    "id": "Function",
                    "arn": self.function.attr_arn,
                    "deadLetterConfig": {"arn": self._dead_letters.queue.queue_arn},
                }
            ],
        )
        self._allow(id, rule)

    def call_on(self, id: str, expression: str, event: Mapping[str, str]) -> None:
        """Call the function with this event on a schedule of EventBridge, in UTC."""
        rule = events.CfnRule(
            self,
            id,
            description=f"Calls {self.node.id.lower()} at {expression}",
            schedule_expression=expression,
            state="ENABLED",
            targets=[
                {
                    "id": "Function",
                    "arn": self.function.attr_arn,
                    "input": json.dumps(dict(event)),
                    "deadLetterConfig": {"arn": self._dead_letters.queue.queue_arn},
                }
            ],
        )
        self._allow(id, rule)

    def _allow(self, id: str, rule: events.CfnRule) -> None:
        self._dead_letters.accept_from(rule.attr_arn)
        lambda_.CfnPermission(
            self,
            f"{id}Permission",
            action="lambda:InvokeFunction",
            function_name=self.function.ref,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
        )


def log_name(function: str) -> str:
    """The log group that Lambda writes a function's output to."""
    return f"/aws/lambda/{function}"
