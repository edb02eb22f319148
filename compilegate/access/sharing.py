"""What a later stage may read here, to bring models to it. Pure.

Only with what was registered and the verdicts on it: no data, no checkpoints, and no code. A reader
is a role of another account or an organisation; what its own account does not allow, it may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compilegate.access.layout import models_prefix, verdicts_prefix
from compilegate.access.policy import Arns

CI_DEPLOY = "-ci-deploy"
"""What the name of CI's deploying role ends with, behind the project's: a stage before names it."""
SHARED_PREFIXES = (models_prefix, verdicts_prefix)
SEE_IMAGE = ("ecr:BatchGetImage", "ecr:DescribeImages")
"""What CreateModelPackage does with the permissions of its caller."""
PULL = ("ecr:BatchCheckLayerAvailability", *SEE_IMAGE, "ecr:GetDownloadUrlForLayer")
READ_MODELS = ("sagemaker:DescribeModelPackage", "sagemaker:ListModelPackages")
BY_S3 = {"StringLike": {"kms:ViaService": "s3.*.amazonaws.com*"}}
"""A key opens objects of S3 and nothing else; which objects, the bucket's policy says."""

Document = dict[str, Any]


def of_bucket(bucket_arn: str, readers: Sequence[str], partition: str) -> list[Document]:
    """Statements: read registered models and verdicts, of every workload."""
    objects = [f"{bucket_arn}/{prefix('*')}*" for prefix in SHARED_PREFIXES]
    return _shared("ShareModels", ["s3:GetObject"], readers, partition, Resource=objects)


def of_key(readers: Sequence[str], partition: str) -> list[Document]:
    """Statements: decrypt what S3 reads for the reader."""
    found = _shared("ShareModels", ["kms:Decrypt"], readers, partition, Resource="*")
    return [{**each, "Condition": {**each["Condition"], **BY_S3}} for each in found]


def of_repository(readers: Sequence[str], partition: str) -> list[Document]:
    """Statements, without a resource as a repository's policy has them: pull. Beside CI's role, the
    later stage's other roles: one of them serves the model, with the image that stays here."""
    pulling = [
        f"{reader.removesuffix(CI_DEPLOY)}-*" if reader.endswith(CI_DEPLOY) else reader
        for reader in readers
    ]
    return _shared("ShareImages", PULL, pulling, partition)


def group_policy(arns: Arns, group: str, readers: Sequence[str]) -> Document:
    """The policy of a model package group: look at its versions."""
    models = arns.sagemaker(f"model-package/{group}/*")
    return {
        "Version": "2012-10-17",
        "Statement": _shared("ShareModels", READ_MODELS, readers, arns.partition, Resource=models),
    }


def _shared(
    sid: str, actions: Sequence[str], readers: Sequence[str], partition: str, **more: Any
) -> list[Document]:
    """A statement for roles and one for organisations, as far as there are such readers.

    A role is named by a condition and not as the principal, which would have to exist already: the
    stage before is deployed first.
    """
    roles = [reader for reader in readers if reader.startswith("arn:")]
    organisations = [reader for reader in readers if reader not in roles]
    accounts = sorted({f"arn:{partition}:iam::{role.split(':')[4]}:root" for role in roles})
    statements = (
        (sid, accounts, {"ArnLike": {"aws:PrincipalArn": roles}}),
        (f"{sid}Within", ["*"], {"StringEquals": {"aws:PrincipalOrgID": organisations}}),
    )
    return [
        {
            "Sid": name,
            "Effect": "Allow",
            "Principal": {"AWS": principals},
            "Action": list(actions),
            **more,
            "Condition": condition,
        }
        for (name, principals, condition), wanted in zip(
            statements, (roles, organisations), strict=True
        )
        if wanted
    ]
