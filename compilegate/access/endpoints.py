"""What jobs reach from a VPC without a way to the internet, and what they may do there. Pure.

Which services those are follows from the jobs' roles: what no role may call needs no way to it
(`tests/infra/access/test_endpoints.py` holds the two together). Each endpoint then has a policy of
its own, so that a program with somebody else's credentials finds nobody else's bucket there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.access.arns import Arns
from compilegate.access.statement import Statement

GATEWAYS = ("s3", "dynamodb")
"""Services that a route leads to, which costs nothing; to all others leads an interface, by the
hour and zone."""
SERVICES_OF = {
    "s3": ("s3",),
    "kms": ("kms",),
    "ecr": ("ecr.api", "ecr.dkr"),
    "logs": ("logs",),
    "cloudwatch": ("monitoring",),
    "ec2": (),
}
"""Endpoint services by the prefix of an action. SageMaker itself makes a job's interfaces."""
STORAGE = "s3"
DEFAULT = ("ecr.api", "ecr.dkr", "kms", "logs", "monitoring")
"""What jobs' roles may call, beside S3."""

_MANY = "One policy for the jobs of all workloads; each role is limited to its own"


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What of the project jobs reach."""

    arns: Arns
    bucket_arns: Sequence[str]
    """The project's bucket, and the one that code is uploaded to."""
    key_arn: str
    repository_arns: Sequence[str]


def reached_services(declared: Sequence[str] | None, *, isolated: bool) -> list[str]:
    """The services that get an endpoint, S3 first; `declared` are those of the settings.

    Isolated containers call nothing, and SageMaker moves their files through S3.
    """
    others = () if isolated else DEFAULT
    return list(dict.fromkeys([STORAGE, *(others if declared is None else declared)]))


def endpoint_policy(service: str, reached: Reached) -> dict[str, Any]:
    """What may be done through one endpoint, whoever asks."""
    makers = {
        "s3": _objects,
        "kms": _key,
        "ecr.api": _images,
        "ecr.dkr": _images,
        "logs": _logs,
        "monitoring": _metrics,
    }
    ours = {"StringEquals": {"aws:PrincipalAccount": reached.arns.account}}
    if service not in makers:
        # What a program calls there is its own affair; roles of this account decide.
        anything = {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}
        return {"Version": "2012-10-17", "Statement": [{**anything, "Condition": ours}]}
    documents = [
        {
            **statement.document(),
            "Principal": "*",
            # Layers are fetched by addresses that ECR has signed itself.
            **({} if statement.sid == "FetchLayers" else {"Condition": ours}),
        }
        for statement in makers[service](reached)
    ]
    return {"Version": "2012-10-17", "Statement": documents}


def _objects(reached: Reached) -> list[Statement]:
    arns = reached.arns
    layers = arns.bucket(f"prod-{arns.region}-starport-layer-bucket")
    return [
        Statement(
            sid="Objects",
            actions=["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            resources=[f"{bucket}/*" for bucket in reached.bucket_arns],
            because=_MANY,
        ),
        Statement(
            sid="Buckets",
            actions=["s3:GetBucketLocation", "s3:ListBucket"],
            resources=reached.bucket_arns,
        ),
        Statement(
            sid="FetchLayers",
            actions=["s3:GetObject"],
            resources=[f"{layers}/*"],
            because="ECR keeps the layers of images in a bucket of its own",
        ),
    ]


def _key(reached: Reached) -> list[Statement]:
    return [
        Statement(
            sid="Key",
            actions=[
                "kms:CreateGrant",
                "kms:Decrypt",
                "kms:DescribeKey",
                "kms:Encrypt",
                "kms:GenerateDataKey",
            ],
            resources=[reached.key_arn],
        )
    ]


def _images(reached: Reached) -> list[Statement]:
    return [
        Statement(
            sid="LogIn",
            actions=["ecr:GetAuthorizationToken"],
            resources=["*"],
            because="The action does not support permissions for single resources",
        ),
        Statement(
            sid="Pull",
            actions=[
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:GetDownloadUrlForLayer",
            ],
            resources=reached.repository_arns,
        ),
    ]


def _logs(reached: Reached) -> list[Statement]:
    return [
        Statement(
            sid="Write",
            actions=[
                "logs:CreateLogGroup",
                "logs:CreateLogStream",
                "logs:DescribeLogStreams",
                "logs:PutLogEvents",
            ],
            resources=[reached.arns.log_group("/aws/sagemaker/*")],
            because="SageMaker names the groups and streams of its jobs",
        )
    ]


def _metrics(_reached: Reached) -> list[Statement]:
    return [
        Statement(
            sid="Publish",
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            because="The action does not support permissions for single resources",
        )
    ]
