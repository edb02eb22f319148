"""The releaser of one workload: which events it receives, what it deploys, and what it watches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import Construct

from compilegate.access import Arns
from compilegate.access.layout import (
    answers_prefix,
    releases_prefix,
    requests_prefix,
)
from compilegate.account.named import (
    repository_arns,
    serving_folders,
    serving_repositories,
)
from compilegate.account.settings import Names
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.functions import DeadLetters, EventFunction, log_name
from compilegate.infra.parts import log_group, scoped_role, service_principal
from compilegate.infra.project import Project, deploys
from compilegate.infra.workload.release.permissions import (
    ALARMS,
    Released,
    releaser_statements,
    serving_statements,
)
from compilegate.pipelines.deployment import Network
from compilegate.workload import Served, Workload

MINUTE = 60
MINUTES = 2
"""How long an endpoint is bad before its alarm goes off."""
ERRORS, LATENCY = ALARMS
ENDPOINTS = ("real-time", "serverless")


def endpoint_log(endpoint: str) -> str:
    """The log group that SageMaker writes an endpoint's output to."""
    return f"/aws/sagemaker/Endpoints/{endpoint}"


class Release(Construct):
    """The function, the role that models are served with, and the endpoint's alarms."""

    @staticmethod
    def is_needed(workload: Workload) -> bool:
        """Whether anything follows from an approval."""
        return deploys(workload)

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        workload: Workload,
        foundation: FoundationStack,
        dead_letters: DeadLetters,
        network: Network | None,
    ) -> None:
        super().__init__(scope, id)
        stack = cdk.Stack.of(self)
        self._project, self._foundation = project, foundation
        self._network = network or Network()
        declared = workload.serving
        deploy = "none" if declared is None else declared.deploy
        released = Released(
            arns=Arns.of(stack),
            workload=workload.name,
            name=project.names.endpoint(workload.name),
            group=project.names.model_package_group(workload),
            bucket_arn=foundation.bucket_arn,
            key_arn=foundation.key.key_arn,
            deploy=deploy,
            batch_input=(declared.batch_input if declared else None)
            or requests_prefix(workload.name),
        )
        role = None
        if deploy != "none":
            role = self._serving_role(released, workload)
        alarms: list[cloudwatch.CfnAlarm] = []
        if declared is not None and deploy in ENDPOINTS:
            alarms = self._alarms(released.name, declared.max_latency_ms)
            # SageMaker would make it: without a key, and kept for ever.
            log_group(
                self,
                "AnswersLog",
                name=endpoint_log(released.name),
                key=foundation.key,
                days=project.settings.storage.log_days,
            )
        name = project.names.function(workload.name, "releaser")
        self.function = EventFunction(
            self,
            "Releaser",
            name=name,
            description=f"Releases models of {workload.name} that people have approved",
            code=Path(__file__).parents[2] / "releaser",
            handler="releaser.handler",
            variables={
                "MODEL_PACKAGE_GROUP": released.group,
                "BUCKET": foundation.bucket.bucket_name,
                "PREFIX": releases_prefix(workload.name),
                "TOPIC_ARN": foundation.topic.topic_arn,
                "SERVING": stack.to_json_string(
                    self._serving(released, workload.serving, role, alarms)
                ),
            },
            statements=releaser_statements(
                released,
                role_arn="" if role is None else role.role_arn,
                topic_arn=foundation.topic.topic_arn,
                dead_letter_arn=dead_letters.queue.queue_arn,
                log_group=log_name(name),
            ),
            key=foundation.key,
            log_days=project.settings.storage.log_days,
            dead_letters=dead_letters,
        )
        for rule, pattern in _events(released, alarms).items():
            self.function.subscribe(rule, pattern)
        if deploy in ENDPOINTS:
            cdk.CfnOutput(stack, "EndpointName", value=released.name)

    def _serving_role(self, released: Released, workload: Workload) -> iam.IRole:
        stack = cdk.Stack.of(self)
        folders = serving_folders(workload)
        repositories = [
            *self._foundation.repository_arns(folders),
            *repository_arns(released.arns, serving_repositories(workload, stack.region)),
        ]
        if folders:
            source = self._project.settings.source
            if source is not None:
                # A model that was promoted is served in the image that it was tried in.
                names = Names(self._project.settings.model_copy(update={"project": source.project}))
                there = Arns(
                    partition=stack.partition, region=source.region, account=source.account
                )
                repositories += [there.repository(names.repository(folder)) for folder in folders]
        return scoped_role(
            self,
            "ServingRole",
            trusted=service_principal(self, "sagemaker"),
            description=f"Models of {released.workload} that answer requests",
            statements=serving_statements(
                released,
                repository_arns=repositories,
                in_vpc=self._project.settings.network.in_vpc,
            ),
        )

    def _alarms(self, endpoint: str, max_latency_ms: int) -> list[cloudwatch.CfnAlarm]:
        """An alarm for answers that are errors, and one for answers that come late."""

        def alarm(kind: str, metric: str, statistic: str, threshold: float, said: str) -> Any:
            return cloudwatch.CfnAlarm(
                self,
                kind.capitalize(),
                alarm_name=f"{endpoint}-{kind}",
                alarm_description=said,
                namespace="AWS/SageMaker",
                metric_name=metric,
                dimensions=[
                    {"name": "EndpointName", "value": endpoint},
                    {"name": "VariantName", "value": "AllTraffic"},
                ],
                statistic=statistic,
                period=MINUTE,
                evaluation_periods=MINUTES,
                threshold=threshold,
                comparison_operator="GreaterThanOrEqualToThreshold",
                treat_missing_data="notBreaching",
                alarm_actions=[self._foundation.topic.topic_arn],
            )

        return [
            alarm(
                ERRORS,
                "Invocation5XXErrors",
                "Sum",
                1,
                f"The endpoint {endpoint} answers with errors",
            ),
            alarm(
                LATENCY,
                "ModelLatency",
                "Average",
                1000.0 * max_latency_ms,  # in microseconds
                f"The model behind {endpoint} takes longer than {max_latency_ms} ms on average",
            ),
        ]

    def _serving(
        self,
        released: Released,
        serving: Served | None,
        role: iam.IRole | None,
        alarms: list[cloudwatch.CfnAlarm],
    ) -> dict[str, Any]:
        """What `releaser.settings.Serving` reads."""
        network, bucket = self._network, self._foundation.bucket_name
        return {
            "deploy": released.deploy,
            "name": released.name,
            "role_arn": "" if role is None else role.role_arn,
            "key_arn": released.key_arn,
            "content_type": serving.content_types[0] if serving is not None else "",
            "memory_mb": serving.memory_mb if serving else 0,
            "max_concurrency": serving.max_concurrency if serving else 0,
            "instance_type": serving.instance_type if serving else "",
            "instance_count": serving.instance_count if serving else 0,
            "alarms": [alarm.ref for alarm in alarms],
            "subnets": list(network.subnets),
            "security_groups": list(network.security_group_ids),
            "isolation": network.isolation,
            "batch_input": f"s3://{bucket}/{released.batch_input}",
            "batch_output": f"s3://{bucket}/{answers_prefix(released.workload)}",
            "workload": released.workload,
        }


def _events(released: Released, alarms: list[cloudwatch.CfnAlarm]) -> dict[str, dict[str, Any]]:
    """The patterns of what it hears of, by the name of their rule."""
    found: dict[str, dict[str, Any]] = {
        "Decisions": {
            "source": ["aws.sagemaker"],
            "detail-type": ["SageMaker Model Package State Change"],
            "detail": {"ModelPackageGroupName": [released.group]},
        }
    }
    if released.deploy in ENDPOINTS:
        found["Endpoint"] = {
            "source": ["aws.sagemaker"],
            "detail-type": ["SageMaker Endpoint State Change"],
            "detail": {"EndpointName": [released.name]},
        }
    if released.deploy == "serverless":
        found["EndpointAlarms"] = {
            "source": ["aws.cloudwatch"],
            "detail-type": ["CloudWatch Alarm State Change"],
            "resources": [alarm.attr_arn for alarm in alarms],
            "detail": {"state": {"value": ["ALARM"]}},
        }
    if released.deploy == "batch":
        found["Transforms"] = {
            "source": ["aws.sagemaker"],
            "detail-type": ["SageMaker Transform Job State Change"],
            "detail": {
                "TransformJobName": [{"prefix": f"{released.name}--"}],
                "TransformJobStatus": ["Failed", "Stopped"],
            },
        }
    return found
