"""What jobs reach from a VPC without a way to the internet, and what they may do there. Pure.

Which services those are follows from the jobs' roles: what no role may call needs no way to it
(`tests/infra/test_network.py` holds the two together). Each endpoint has a policy of its
own, so that a program with somebody else's credentials finds nobody else's bucket there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.access.jobs import PULL, USE_KEY, WRITE_LOGS
from compilegate.access.policy import Arns

Allowed = dict[tuple[str, ...], Sequence[str]]
"""Resources by the actions on them."""

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


@dataclass(frozen=True, kw_only=True)
class Reached:
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


def endpoint_statements(service: str, reached: Reached) -> list[dict[str, Any]]:
    """What may be done through one endpoint, whoever of this account asks.

    There is one policy for the jobs of all workloads; each role is limited to its own. A service
    that is not here is a program's own affair: what its role may do there, its endpoint allows.
    """
    arns = reached.arns
    pull: Allowed = {("ecr:GetAuthorizationToken",): ["*"], PULL: reached.repository_arns}
    allowed: dict[str, Allowed] = {
        "s3": {
            ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"): [
                f"{bucket}/*" for bucket in reached.bucket_arns
            ],
            ("s3:GetBucketLocation", "s3:ListBucket"): reached.bucket_arns,
        },
        "kms": {("kms:CreateGrant", *USE_KEY): [reached.key_arn]},
        "ecr.api": pull,
        "ecr.dkr": pull,
        # SageMaker names the groups and streams of its jobs.
        "logs": {WRITE_LOGS: [arns.log_group("/aws/sagemaker/*")]},
        "monitoring": {("cloudwatch:PutMetricData",): ["*"]},
    }
    ours = {"StringEquals": {"aws:PrincipalAccount": arns.account}}
    statements = [
        _allow(actions, resources, Condition=ours)
        for actions, resources in allowed.get(service, {("*",): ["*"]}).items()
    ]
    if service == STORAGE:
        # Layers of images lie in a bucket of ECR's, which hands out addresses that it has signed.
        layers = arns.bucket(f"prod-{arns.region}-starport-layer-bucket")
        statements.append(_allow(("s3:GetObject",), [f"{layers}/*"]))
    return statements


def _allow(actions: Sequence[str], resources: Sequence[str], **rest: Any) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Principal": "*",
        "Action": list(actions),
        "Resource": list(resources),
        **rest,
    }
