"""What other accounts may read here, to bring models to the stage after this one. Pure.

Only what was registered and the verdicts on it: no data, no checkpoints, and no code. A policy of a
resource lets an account in; which of its roles may come is that account's own to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.access.arns import Arns
from compilegate.access.layout import models_prefix, verdicts_prefix

SHARED_PREFIXES = (models_prefix, verdicts_prefix)
PULL = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:GetDownloadUrlForLayer",
)
READ_MODELS = ("sagemaker:DescribeModelPackage", "sagemaker:ListModelPackages")


@dataclass(frozen=True, kw_only=True)
class Shared:
    """One statement of a resource's policy."""

    sid: str
    actions: Sequence[str]
    resources: Sequence[str]


def of_bucket(bucket_arn: str) -> Shared:
    """Registered models and verdicts, of every workload."""
    return Shared(
        sid="ShareModels",
        actions=["s3:GetObject"],
        resources=[f"{bucket_arn}/{prefix('*')}*" for prefix in SHARED_PREFIXES],
    )


def of_key() -> Shared:
    """What these are encrypted with; which objects that opens, the bucket says."""
    return Shared(sid="ShareModels", actions=["kms:Decrypt", "kms:DescribeKey"], resources=["*"])


def group_policy(arns: Arns, group: str, readers: Sequence[str]) -> dict[str, Any]:
    """The policy of a model package group: look at its versions."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "ShareModels",
                "Effect": "Allow",
                "Principal": {
                    "AWS": [f"arn:{arns.partition}:iam::{each}:root" for each in readers]
                },
                "Action": list(READ_MODELS),
                "Resource": [
                    arns.sagemaker(f"model-package-group/{group}"),
                    arns.sagemaker(f"model-package/{group}/*"),
                ],
            }
        ],
    }
