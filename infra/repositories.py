"""The ECR repositories of a project's images."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from constructs import Construct

from compilegate.account.settings.names import output_suffix
from compilegate.infra.parts import removal_policy
from compilegate.infra.project import Project


def image_repositories(
    scope: Construct, project: Project, key: kms.IKey
) -> Mapping[str, ecr.Repository]:
    """A repository for each folder of `containers/`, which keeps the newest images.

    Tags are immutable, and an image is scanned when it is pushed.
    """
    removal = removal_policy(project.settings.storage)
    keep = ecr.LifecycleRule(
        max_image_count=project.settings.images.keep, description="Keep the newest images"
    )
    return {
        image: ecr.Repository(
            scope,
            output_suffix(image),
            repository_name=project.names.repository(image),
            encryption=ecr.RepositoryEncryption.KMS,
            encryption_key=key,
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            lifecycle_rules=[keep],
            removal_policy=removal,
            empty_on_delete=removal == cdk.RemovalPolicy.DESTROY,
        )
        for image in project.images
    }
