"""What answers with approved models: the endpoint, in a stack of its own, and what both the
endpoint and batch transforms need beside it.

The stack has one parameter, the version of the model. A workload's keeper sets it when a version is
approved, and may change nothing else of the stack: it holds only what a version replaces. SageMaker
takes a version back when an alarm goes off, CloudFormation then rolls the stack back, and so it
does for a serverless endpoint, which SageMaker does not guard
(https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails.html).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from compilegate.access import Arns
from compilegate.access.jobs import (
    WORKLOAD_TAG,
    WRITE,
    join_vpc,
    publish_metrics,
    pull_images,
    write_logs,
)
from compilegate.access.layout import answers_prefix, models_prefix, requests_prefix
from compilegate.access.policy import may, may_grant, may_list, may_objects
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.parts import scoped_role, service_principal, stack_options
from compilegate.infra.project import BATCH, Project
from compilegate.pipelines.deployment import Network
from compilegate.pipelines.requests import volume_key_of
from compilegate.workload import Served, Workload

VARIANT = "AllTraffic"
VERSION = "Version"
"""The stack's parameter; 0 while no model is approved."""
SEPARATOR = "--"
"""Separator in names. No workload's name has two hyphens, so `news` and `news-topics` differ."""
BAD_MINUTES = 2
"""How long an endpoint is bad before its alarm goes off."""


class EndpointStack(cdk.Stack):
    """Model, configuration and endpoint of the version that the parameter says."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        workload: Workload,
        serving: Served,
        foundation: FoundationStack,
        role_arn: str,
        network: Network | None,
        env: cdk.Environment,
    ) -> None:
        description = f"Compilegate: the endpoint of {workload.name}"
        super().__init__(scope, id, **stack_options(project, env, description))
        cdk.Tags.of(self).add(WORKLOAD_TAG, workload.name)
        version = cdk.CfnParameter(
            self,
            VERSION,
            default="0",
            allowed_pattern="[0-9]{1,5}",
            description="The version of the model that answers; 0 for none",
        ).value_as_string
        model = cdk.CfnCondition(
            self, "HasModel", expression=cdk.Fn.condition_not(cdk.Fn.condition_equals(version, "0"))
        )
        endpoint = project.names.endpoint(workload.name)
        group = project.names.model_package_group(workload)
        container = {
            "modelPackageName": Arns.of(self).sagemaker(f"model-package/{group}/{version}")
        }
        network = network or Network()
        vpc = {"subnets": [*network.subnets], "securityGroupIds": [*network.security_group_ids]}
        placed = {
            "enable_network_isolation": network.isolation,
            "vpc_config": vpc if network.subnets else None,
        }
        # SageMaker makes no volume where the machine has disks of its own, nor without machines.
        key, real_time = None, serving.deploy == "real-time"
        variant: dict[str, Any] = {"variantName": VARIANT, "initialVariantWeight": 1}
        if real_time:
            key = volume_key_of(serving.instance_type, foundation.key.key_arn)
            variant["instanceType"] = serving.instance_type
            variant["initialInstanceCount"] = serving.instance_count
        else:
            variant["serverlessConfig"] = {
                "memorySizeInMb": serving.memory_mb,
                "maxConcurrency": serving.max_concurrency,
            }
        # Nothing of a model or a configuration can be changed: with other settings it is another.
        text = json.dumps(self.resolve([placed, variant, key, role_arn]), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        name = f"{endpoint}{SEPARATOR}{version}-{digest}"
        made = sagemaker.CfnModel(
            self,
            "Model",
            model_name=name,
            containers=[container],
            execution_role_arn=role_arn,
            **placed,
        )
        configuration = sagemaker.CfnEndpointConfig(
            self,
            "Configuration",
            endpoint_config_name=name,
            kms_key_id=key,
            production_variants=[{**variant, "modelName": made.attr_model_name}],
        )
        answering = sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=endpoint,
            endpoint_config_name=configuration.attr_endpoint_config_name,
            deployment_config=_guarded(endpoint, serving.instance_count) if real_time else None,
        )
        for resource in (made, configuration, answering):
            resource.cfn_options.condition = model
        cdk.CfnOutput(self, "EndpointName", value=endpoint)


def _guarded(endpoint: str, machines: int) -> dict[str, Any]:
    """Deployment with one new machine first; an alarm rolls it back."""
    routing: dict[str, Any] = {"type": "ALL_AT_ONCE", "waitIntervalInSeconds": 300}
    if machines > 1:
        routing["type"] = "CANARY"
        routing["canarySize"] = {"type": "INSTANCE_COUNT", "value": 1}
    return {
        "blueGreenUpdatePolicy": {
            "trafficRoutingConfiguration": routing,
            # The old machines stay for as long as an alarm may take to go off.
            "terminationWaitInSeconds": 600,
            "maximumExecutionTimeoutInSeconds": 3600,
        },
        "autoRollbackConfiguration": {
            "alarms": [{"alarmName": name} for name in alarm_names(endpoint)]
        },
    }


def alarm_names(endpoint: str) -> list[str]:
    return [f"{endpoint}-errors", f"{endpoint}-latency"]


def watch_endpoint(
    scope: Construct,
    project: Project,
    workload: Workload,
    serving: Served,
    foundation: FoundationStack,
) -> None:
    """Alarms for answers that are errors and for those that come late; and the endpoint's log.

    They stand in the workload's stack, so that they are there before the first version is.
    """
    endpoint = project.names.endpoint(workload.name)
    # SageMaker would make it: without a key, and kept for ever.
    foundation.log_group(scope, "AnswersLog", f"/aws/sagemaker/Endpoints/{endpoint}")
    errors, latency = alarm_names(endpoint)
    shared: dict[str, Any] = {
        "namespace": "AWS/SageMaker",
        "dimensions": {"EndpointName": endpoint, "VariantName": VARIANT},
        "minutes": 1,
        "periods": BAD_MINUTES,
    }
    foundation.alarm(
        scope,
        "Errors",
        alarm_name=errors,
        alarm_description=f"The endpoint {endpoint} answers with errors",
        metric_name="Invocation5XXErrors",
        statistic="Sum",
        threshold=1,
        **shared,
    )
    foundation.alarm(
        scope,
        "Latency",
        alarm_name=latency,
        alarm_description=f"The model behind {endpoint} takes longer than "
        f"{serving.max_latency_ms} ms on average",
        metric_name="ModelLatency",
        statistic="Average",
        threshold=1000.0 * serving.max_latency_ms,  # in microseconds
        **shared,
    )


def serving_role(
    scope: Construct,
    project: Project,
    workload: Workload,
    serving: Served,
    foundation: FoundationStack,
) -> str:
    """The ARN of the role of a served model: it reads its own workload's models, pulls its image,
    writes its log; in a batch transform it reads requests and writes answers."""
    settings, arns = project.settings, Arns.of(cdk.Stack.of(scope))
    bucket, key = foundation.bucket_arn, foundation.key.key_arn
    reads, answers = [models_prefix(workload.name)], [answers_prefix(workload.name)]
    log = f"Endpoints/{project.names.endpoint(workload.name)}"
    writes = []
    if serving.deploy == BATCH:
        reads.append(batch_input(workload, serving))
        log = "TransformJobs"
        writes = [may_objects("WriteAnswers", *WRITE, bucket=bucket, below=answers)]
    repositories = [*foundation.serving_arns([workload]), *foundation.promoted_arns([workload])]
    name = f"{project.names.pipeline(workload.name)}-serving"
    scoped_role(
        scope,
        "ServingRole",
        name=name,
        given=settings.roles.serving,
        trusted=service_principal(scope, "sagemaker"),
        description=f"Models of {workload.name} that answer requests",
        statements=[
            may_objects("ReadModels", "s3:GetObject", bucket=bucket, below=reads),
            may_list("ListModels", bucket, reads),
            *writes,
            may("UseKey", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey", on=[key]),
            may_grant("EncryptVolumes", key),
            *pull_images(repositories),
            write_logs(
                arns,
                f"/aws/sagemaker/{log}",
                because="SageMaker names a log stream after the machine",
            ),
            publish_metrics(
                "/aws/sagemaker/Endpoints", "/aws/sagemaker/TransformJobs", "AWS/SageMaker"
            ),
            *([join_vpc()] if settings.network.in_vpc else []),
        ],
    )
    # By its name: an export could not be removed while the endpoint's stack is there.
    return settings.roles.serving or arns.role(f"{project.names.path.removeprefix('/')}{name}")


def batch_input(workload: Workload, serving: Served) -> str:
    """The prefix of a batch transform's requests."""
    return serving.batch_input or requests_prefix(workload.name)
