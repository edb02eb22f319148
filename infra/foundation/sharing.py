"""Lets the accounts of later stages read what they promote: models, verdicts, images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from compilegate.access.sharing import PULL, Shared, of_bucket, of_key


def share(
    readers: Sequence[str],
    *,
    bucket: s3.IBucket,
    bucket_arn: str,
    key: kms.IKey,
    repositories: Iterable[ecr.Repository],
) -> None:
    """Put it into the policies of bucket, key and repositories. A key that this project did not
    make has a policy of its own, which has to say the same (docs/stages.md)."""
    if not readers:
        return
    bucket.add_to_resource_policy(_statement(of_bucket(bucket_arn), readers))
    key.add_to_resource_policy(_statement(of_key(), readers))
    for repository in repositories:
        # The policy of a repository names no resource: it is of that one.
        repository.add_to_resource_policy(
            iam.PolicyStatement(
                sid="ShareImages", principals=_principals(readers), actions=list(PULL)
            )
        )


def _statement(shared: Shared, readers: Sequence[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid=shared.sid,
        principals=_principals(readers),
        actions=list(shared.actions),
        resources=list(shared.resources),
    )


def _principals(readers: Sequence[str]) -> list[iam.IPrincipal]:
    # pyrefly: ignore[bad-return]  # the CDK names a parameter in two ways
    return [iam.AccountPrincipal(account) for account in readers]
