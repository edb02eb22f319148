"""One image repository for each folder of `containers/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from constructs import Construct

from compilegate.account.settings import Names
from compilegate.account.settings.names import output_suffix


class ImageRegistry(Construct):
    """Repositories with immutable tags, whose images are scanned on push."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        names: Names,
        images: Sequence[str],
        key: kms.IKey,
        keep: int,
        removal: RemovalPolicy,
    ) -> None:
        super().__init__(scope, id)
        self.repositories: Mapping[str, ecr.Repository] = {
            image: ecr.Repository(
                self,
                output_suffix(image),
                repository_name=names.repository(image),
                encryption=ecr.RepositoryEncryption.KMS,
                encryption_key=key,
                image_scan_on_push=True,
                image_tag_mutability=ecr.TagMutability.IMMUTABLE,
                lifecycle_rules=[
                    ecr.LifecycleRule(max_image_count=keep, description="Keep the newest images")
                ],
                removal_policy=removal,
                empty_on_delete=removal == RemovalPolicy.DESTROY,
            )
            for image in images
        }
