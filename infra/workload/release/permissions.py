"""What the releaser may do, and what a served model may. Pure: ARNs in, statements out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compilegate.access import Arns, Statement
from compilegate.access.jobs import (
    ANY,
    MANY_OBJECTS,
    NO_RESOURCE,
    join_vpc,
    publish_metrics,
    pull_images,
    write_logs,
)
from compilegate.access.layout import (
    answers_prefix,
    models_prefix,
    releases_prefix,
)
from compilegate.infra.functions.permissions import function_statements

ALARMS = ("errors", "latency")
"""The ends of the names of an endpoint's alarms."""
NUMBERED = "Their names end in the version of the model, after two hyphens"
STREAMS = "SageMaker names a log stream after the machine"


@dataclass(frozen=True, kw_only=True)
class Released:
    """What the statements are about."""

    arns: Arns
    workload: str
    name: str
    """The endpoint's; other names begin with it."""
    group: str
    bucket_arn: str
    key_arn: str
    deploy: str
    batch_input: str
    """The prefix of a batch transform's requests."""


def releaser_statements(
    released: Released, *, role_arn: str, topic_arn: str, dead_letter_arn: str, log_group: str
) -> list[Statement]:
    """The releaser: see what is approved, deploy it under this workload's names, tell people."""
    arns, bucket = released.arns, released.bucket_arn
    return [
        Statement(
            sid="SeeApprovals",
            actions=["sagemaker:DescribeModelPackage"],
            resources=[arns.sagemaker(f"model-package/{released.group}/*")],
            because="The versions in a group are numbered",
        ),
        Statement(
            sid="ListApprovals",
            actions=["sagemaker:ListModelPackages"],
            resources=[ANY],
            because=NO_RESOURCE,
        ),
        Statement(
            sid="RememberReleases",
            actions=["s3:GetObject", "s3:PutObject"],
            resources=[f"{bucket}/{releases_prefix(released.workload)}*"],
            because=MANY_OBJECTS,
        ),
        # Without it S3 says of what is not there that it is forbidden.
        Statement(
            sid="SeeWhetherRemembered",
            actions=["s3:ListBucket"],
            resources=[bucket],
            conditions={"StringLike": {"s3:prefix": [f"{releases_prefix(released.workload)}*"]}},
        ),
        *(_deploying(released, role_arn) if released.deploy != "none" else []),
        Statement(sid="Notify", actions=["sns:Publish"], resources=[topic_arn]),
        Statement(sid="KeepWhatFailed", actions=["sqs:SendMessage"], resources=[dead_letter_arn]),
        *function_statements(arns, released.key_arn, log_group),
    ]


def _deploying(released: Released, role_arn: str) -> list[Statement]:
    arns, name = released.arns, released.name
    kinds = ["transform-job"] if released.deploy == "batch" else ["endpoint", "endpoint-config"]
    actions = {
        "transform-job": ["sagemaker:CreateTransformJob"],
        "endpoint": [
            "sagemaker:CreateEndpoint",
            "sagemaker:DeleteEndpoint",
            "sagemaker:DescribeEndpoint",
            "sagemaker:UpdateEndpoint",
        ],
        "endpoint-config": ["sagemaker:CreateEndpointConfig"],
    }
    resources = [arns.sagemaker(f"{kind}/{name}--*") for kind in (*kinds, "model")]
    if "endpoint" in kinds:
        resources.append(arns.sagemaker(f"endpoint/{name}"))
    return [
        Statement(
            sid="Deploy",
            actions=[
                "sagemaker:AddTags",
                "sagemaker:CreateModel",
                *(action for kind in kinds for action in actions[kind]),
            ],
            resources=resources,
            because=NUMBERED,
        ),
        Statement(
            sid="PassServingRole",
            actions=["iam:PassRole"],
            resources=[role_arn],
            conditions={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        ),
        # For the volumes of its machines.
        Statement(
            sid="LendKeyToService",
            actions=["kms:CreateGrant"],
            resources=[released.key_arn],
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
        Statement(sid="SeeKey", actions=["kms:DescribeKey"], resources=[released.key_arn]),
        *(
            [
                # SageMaker looks at the alarms that take a model back as who deploys it.
                Statement(
                    sid="SeeAlarms",
                    actions=["cloudwatch:DescribeAlarms"],
                    resources=[
                        arns.of_service("cloudwatch", f"alarm:{name}-{kind}") for kind in ALARMS
                    ],
                )
            ]
            if released.deploy == "real-time"
            else []
        ),
    ]


def serving_statements(
    released: Released, *, repository_arns: Sequence[str], in_vpc: bool
) -> list[Statement]:
    """A served model: read its own workload's models, pull its image, write its log; and for a
    batch transform, read requests and write answers."""
    arns, bucket, workload = released.arns, released.bucket_arn, released.workload
    batch = released.deploy == "batch"
    reads = [models_prefix(workload), *([released.batch_input] if batch else [])]
    log = "TransformJobs" if batch else f"Endpoints/{released.name}"
    return [
        Statement(
            sid="ReadModels",
            actions=["s3:GetObject"],
            resources=[f"{bucket}/{prefix}*" for prefix in reads],
            because=MANY_OBJECTS,
        ),
        Statement(
            sid="ListModels",
            actions=["s3:ListBucket"],
            resources=[bucket],
            conditions={"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in reads]}},
        ),
        *(
            [
                Statement(
                    sid="WriteAnswers",
                    actions=["s3:AbortMultipartUpload", "s3:PutObject"],
                    resources=[f"{bucket}/{answers_prefix(workload)}*"],
                    because=MANY_OBJECTS,
                )
            ]
            if batch
            else []
        ),
        Statement(
            sid="UseKey",
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"],
            resources=[released.key_arn],
        ),
        Statement(
            sid="EncryptVolumes",
            actions=["kms:CreateGrant"],
            resources=[released.key_arn],
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
        *pull_images(repository_arns),
        write_logs(arns, f"/aws/sagemaker/{log}", because=STREAMS),
        publish_metrics(
            "/aws/sagemaker/Endpoints", "/aws/sagemaker/TransformJobs", "AWS/SageMaker"
        ),
        *([join_vpc()] if in_vpc else []),
    ]
