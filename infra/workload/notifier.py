"""The notifier of one pipeline: its function, and the events that it hears of."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra.access import Arns, scoped_role, service_principal
from infra.foundation import FoundationStack
from infra.log_group import log_group
from infra.project import ROOT, Project
from infra.workload.dead_letters import DeadLetters
from infra.workload.permissions import notifier_statements

CODE = ROOT / "infra" / "notifier"
HANDLER = "notifier.handler"
SECONDS = 60
GATE_STEP = "Gate"


class Notifier(Construct):
    """Keeps executions from overlapping, and tells of failures and of what the gate refused."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        workload: str,
        pipeline_arn: str,
        foundation: FoundationStack,
        dead_letters: DeadLetters,
    ) -> None:
        super().__init__(scope, id)
        name = f"{project.names.pipeline(workload)}-notifier"
        dead_letter_arn = dead_letters.queue.queue_arn
        logs = log_group(
            self,
            "Logs",
            name=f"/aws/lambda/{name}",
            key=foundation.key,
            days=project.settings.storage.log_days,
        )
        role = scoped_role(
            self,
            "Role",
            trusted=service_principal(self, "lambda"),
            description=f"The notifier of {workload}",
            statements=notifier_statements(
                arns=Arns.of(cdk.Stack.of(self)),
                workload=workload,
                pipeline_arn=pipeline_arn,
                bucket_arn=foundation.bucket_arn,
                key_arn=foundation.key.key_arn,
                topic_arn=foundation.topic.topic_arn,
                dead_letter_arn=dead_letter_arn,
                log_group=f"/aws/lambda/{name}",
            ),
        )
        code = assets.Asset(self, "Code", path=str(CODE), exclude=["__pycache__", "**/*.pyc"])
        self.function = lambda_.CfnFunction(
            self,
            "Function",
            function_name=name,
            description=f"Keeps executions of {workload} from overlapping, and tells people",
            runtime="python3.14",
            architectures=["arm64"],
            handler=HANDLER,
            code={"s3Bucket": code.s3_bucket_name, "s3Key": code.s3_object_key},
            role=role.role_arn,
            timeout=SECONDS,
            memory_size=256,
            kms_key_arn=foundation.key.key_arn,
            environment={
                "variables": {
                    "TOPIC_ARN": foundation.topic.topic_arn,
                    "PIPELINE_ARN": pipeline_arn,
                    "BUCKET": foundation.bucket.bucket_name,
                    "WORKLOAD": workload,
                }
            },
            dead_letter_config={"targetArn": dead_letter_arn},
            logging_config={"logGroup": logs.ref, "logFormat": "JSON"},
        )
        self.rules = [
            self._rule("ExecutionEvents", EXECUTION_STATES, pipeline_arn, dead_letter_arn),
            self._rule("GateEvents", GATE_STATES, pipeline_arn, dead_letter_arn),
        ]

    def _rule(
        self, id: str, pattern: dict[str, Any], pipeline_arn: str, dead_letter_arn: str
    ) -> events.CfnRule:
        rule = events.CfnRule(
            self,
            id,
            description=f"Tells the notifier: {pattern['detail-type']}",
            event_pattern={
                "source": ["aws.sagemaker"],
                "detail-type": [pattern["detail-type"]],
                "detail": {"pipelineArn": [pipeline_arn], **pattern["detail"]},
            },
            targets=[
                {
                    "id": "Notifier",
                    "arn": self.function.attr_arn,
                    "deadLetterConfig": {"arn": dead_letter_arn},
                }
            ],
        )
        lambda_.CfnPermission(
            self,
            f"{id}Permission",
            action="lambda:InvokeFunction",
            function_name=self.function.ref,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
        )
        return rule


EXECUTION_STATES: dict[str, Any] = {
    "detail-type": "SageMaker Model Building Pipeline Execution Status Change",
    "detail": {"currentPipelineExecutionStatus": ["Executing", "Failed"]},
}
GATE_STATES: dict[str, Any] = {
    "detail-type": "SageMaker Model Building Pipeline Execution Step Status Change",
    "detail": {"stepName": [GATE_STEP], "currentStepStatus": ["Succeeded"]},
}
