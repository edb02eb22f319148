"""A model goes from one stage to the next: its archive, its verdict, and what the registry says.

All of it is done with the credentials of the stage that it comes to, which may read where it comes
from by the policies there. The bytes are copied, so that nothing in production depends on another
account's bucket. The image is not: it must lie in the region that serves the model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from compilegate.access import Arns
from compilegate.account.errors import AwsError, DeniedError, absent_allowed, aws_errors
from compilegate.account.object_store import parts_of
from compilegate.account.registry import (
    APPROVED,
    WAITING,
    RegisteredModel,
    Registry,
    described_model,
)
from compilegate.account.session import AwsSession
from compilegate.account.settings.declaration import Source
from compilegate.catalog.images import EcrRepository, base_images, ecr_repository
from compilegate.errors import CompilegateError
from compilegate.job.contract import REPORT_FILE, REPORT_MARKDOWN_FILE

PROMOTED_FROM = "promoted_from"
"""The metadata that says which model of the stage before it is."""
REPORTS = (REPORT_FILE, REPORT_MARKDOWN_FILE)
"""What lies beside a verdict for people; some executions leave none."""
_COPIED = ("ModelPackageDescription", "InferenceSpecification", "ModelMetrics", "ModelCard")
_OF_THE_COPY = "ModelDataETag"
"""S3 may give a copy another."""
_NOT_FOR_US = ("403", "404", "AccessDenied", "NoSuchKey")


class ImageInRegionError(CompilegateError):
    """The region has no such image, so that SageMaker would not serve the model there."""


@dataclass(frozen=True)
class Promotion:
    source: Source
    session: AwsSession
    registry: Registry
    bucket: str
    """The bucket of the stage that models come to."""

    def promote(self, group: str, version: int) -> tuple[RegisteredModel, bool]:
        """Copy an approved model and its verdict, and register it as waiting; returns it, and
        whether it is new: a model that was promoted before is left alone.

        `group` is a group's name without any project's. Raises AwsError, also for a model that is
        not approved, and ImageInRegionError.
        """
        source, partition = self.source, self.session.partition
        arns = Arns(partition=partition, region=source.region, account=source.account)
        there = described_model(
            self.session, arns.sagemaker(f"model-package/{source.project}-{group}/{version}")
        )
        if there.approval != APPROVED:
            raise AwsError(
                f"{there.name} of account {source.account} is {there.approval}, allowed: a model "
                f"that is {APPROVED} there"
            )
        for model in self.registry.models(group):
            if model.metadata.get(PROMOTED_FROM) == there.arn:
                return model, False
        copied = {key: there.description[key] for key in _COPIED if there.description.get(key)}
        for container in _containers(copied):
            self._take_image_of_this_region(container)
        moved = {uri: self._copied(uri) for uri in dict.fromkeys(_uris(there))}
        if "verdict" in there.metadata:
            for name in REPORTS:
                self._copied(f"{there.metadata['verdict'].rpartition('/')[0]}/{name}", needed=False)
        metadata = {**_replaced(there.metadata, moved), PROMOTED_FROM: there.arn}
        with aws_errors(f"register {there.name}"):
            made = self.session.client("sagemaker").create_model_package(
                **_replaced(copied, moved),
                ModelPackageGroupName=f"{self.registry.project}-{group}",
                ModelApprovalStatus=WAITING,
                CustomerMetadataProperties=metadata,
                # Two people who promote the same model at once get the same version.
                ClientToken=hashlib.sha256(there.arn.encode()).hexdigest()[:36],
            )
        return described_model(self.session, str(made["ModelPackageArn"])), True

    def _take_image_of_this_region(self, container: dict[str, Any]) -> None:
        """SageMaker takes only images that lie in the region of the model. Raises
        ImageInRegionError."""
        before = container.get("Image", "")
        container["Image"] = self._image_here(before)
        if container["Image"] != before:
            # A digest that the service added belongs to the image that it looked up there.
            container.pop("ImageDigest", None)

    def _image_here(self, uri: str) -> str:
        repository, region = ecr_repository(uri), self.session.region
        if repository is None or repository.region == region:
            return uri
        if repository.account == self.source.account:
            return self._replicated(uri, repository)
        name = uri.partition("/")[2]
        for image in base_images():
            theirs = image.name == name and image.hosts.get(repository.region) == repository.host
            if theirs and region in image.hosts:
                return image.uri(region)
        raise ImageInRegionError(
            f"the model is served in {uri}, and no image of that name is known in {region}, where "
            "SageMaker would need it; serve it in another image, or keep both stages in one region"
        )

    def _replicated(self, uri: str, there: EcrRepository) -> str:
        """The same image, by its digest, in this region's registry of the account that built it."""
        region, name = self.session.region, there.name
        digest = self._digest(there.region, name, uri.removeprefix(f"{there.host}/{name}"))
        if digest is not None and self._digest(region, name, f"@{digest}") == digest:
            return f"{there.host.replace(there.region, region)}/{name}@{digest}"
        rule = {
            "destinations": [{"region": region, "registryId": there.account}],
            "repositoryFilters": [{"filter": name, "filterType": "PREFIX_MATCH"}],
        }
        raise ImageInRegionError(
            f"the model is served in {uri}, which is not in the registry of {there.account} in "
            f"{region}, expected there by the same digest; replicate it from {there.region}: "
            f"aws ecr put-replication-configuration --region {there.region} "
            f"--replication-configuration '{json.dumps({'rules': [rule]})}', push the image once "
            "more, and let the roles here pull it there (docs/deploy.md)"
        )

    def _digest(self, region: str, repository: str, named: str) -> str | None:
        """What `:TAG` or `@DIGEST` stands for there; None where nothing does."""
        of = {"imageDigest" if named.startswith("@") else "imageTag": named[1:]}
        client = self.session.in_region(region).client("ecr")
        request = {
            "registryId": self.source.account,
            "repositoryName": repository,
            "imageIds": [of],
        }
        # Of another account's repository that is not there, AWS says that it is denied.
        with suppress(DeniedError), aws_errors(f"look for {repository}{named}"), absent_allowed():
            return str(client.describe_images(**request)["imageDetails"][0]["imageDigest"])
        return None

    def _copied(self, uri: str, *, needed: bool = True) -> str:
        """Copy one object to the same key here; returns its URI. The key names a job or an
        execution, so no other object lies there already."""
        bucket, key = parts_of(uri)
        target = f"s3://{self.bucket}/{key}"
        if uri == target:
            return target
        source = self.session.in_region(self.source.region).client("s3")
        here = self.session.client("s3")
        with aws_errors(f"copy {uri} to {target}"):
            try:
                here.copy({"Bucket": bucket, "Key": key}, self.bucket, key, SourceClient=source)
            except ClientError as error:
                if needed or error.response["Error"]["Code"] not in _NOT_FOR_US:
                    raise
        return target


def _containers(description: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = description.get("InferenceSpecification", {}).get(
        "Containers", []
    )
    return found


def _uris(model: RegisteredModel) -> Iterator[str]:
    """All that a model needs to be what it is: its archives, its verdict, what is drawn of it."""
    for container in _containers(model.description):
        if "ModelDataUrl" in container:
            yield str(container["ModelDataUrl"])
    statistics = model.description.get("ModelMetrics", {}).get("ModelQuality", {}).get("Statistics")
    if statistics:
        yield str(statistics["S3Uri"])
    for named in ("verdict", "model_card"):
        if named in model.metadata:
            yield str(model.metadata[named])


def _replaced(value: Any, moved: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _replaced(item, moved) for key, item in value.items() if key != _OF_THE_COPY}
    if isinstance(value, list):
        return [_replaced(item, moved) for item in value]
    return moved.get(value, value) if isinstance(value, str) else value
