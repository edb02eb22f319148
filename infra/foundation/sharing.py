"""Lets later stages read what they promote: models, verdicts, images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from compilegate.access.sharing import of_bucket, of_key, of_repository


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
    partition = cdk.Aws.PARTITION
    for document in of_bucket(bucket_arn, readers, partition):
        bucket.add_to_resource_policy(iam.PolicyStatement.from_json(document))
    for document in of_key(readers, partition):
        key.add_to_resource_policy(iam.PolicyStatement.from_json(document))
    for repository in repositories:
        for document in of_repository(readers, partition):
            repository.add_to_resource_policy(iam.PolicyStatement.from_json(document))
