"""The role of those who approve models."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from compilegate.access import Arns
from compilegate.access.approver import approver_statements
from compilegate.infra.parts import scoped_role
from compilegate.infra.project import Project


def approver(
    scope: Construct, id: str, *, project: Project, bucket_arn: str, key: kms.IKey
) -> iam.IRole | None:
    """The approver's role; None where the settings name nobody."""
    trusted = project.settings.approval.trusted
    if not trusted:
        return None
    return scoped_role(
        scope,
        id,
        # pyrefly: ignore[bad-argument-type]  # the CDK names a parameter in two ways
        trusted=iam.CompositePrincipal(*(iam.ArnPrincipal(arn) for arn in trusted)),
        description="People who approve models: look at them, approve, reject",
        statements=approver_statements(
            arns=Arns.of(cdk.Stack.of(scope)),
            project=project.settings.project,
            bucket_arn=bucket_arn,
            key_arn=key.key_arn,
        ),
    )
