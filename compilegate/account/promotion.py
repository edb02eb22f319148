"""A model goes from one stage to the next: its archive, its verdict, and what the registry says.

All of it is done with the credentials of the stage that it comes to, which may read where it comes
from by the policies there. The bytes are copied, so that nothing in production depends on another
account's bucket; the image is the same one, which stays where it was built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from compilegate.access import Arns
from compilegate.account.errors import AwsError, asking
from compilegate.account.object_store import parts_of
from compilegate.account.registry import RegisteredModel, Registry, described_model
from compilegate.account.session import AwsSession
from compilegate.account.settings.declaration import Source
from compilegate.job.names import REPORT_FILE, REPORT_MARKDOWN_FILE

APPROVED, WAITING = "Approved", "PendingManualApproval"
PROMOTED_FROM = "promoted_from"
"""The metadata that says which model of the stage before it is."""
REPORTS = (REPORT_FILE, REPORT_MARKDOWN_FILE)
"""What lies beside a verdict for people; some executions leave none."""
_KEPT = ("ModelPackageDescription", "InferenceSpecification", "ModelMetrics", "ModelCard")
_OF_THE_COPY = "ModelDataETag"
"""S3 may give a copy another."""
_NOT_FOR_US = ("403", "404", "AccessDenied", "NoSuchKey")


@dataclass(frozen=True)
class Promotion:
    """From one deployment to another."""

    source: Source
    session: AwsSession
    registry: Registry
    bucket: str
    """The bucket of the stage that models come to."""

    def promote(self, group: str, version: int) -> tuple[RegisteredModel, bool]:
        """Copy an approved model and its verdict, and register it as waiting; returns it, and
        whether it is new: a model that was promoted before is left alone.

        `group` is a group's name without any project's. Raises AwsError, also for a model that is
        not approved.
        """
        source, partition = self.source, self.session.partition
        arns = Arns(partition=partition, region=source.region, account=source.account)
        there = described_model(
            self.session, arns.sagemaker(f"model-package/{source.project}-{group}/{version}")
        )
        if there.approval != APPROVED:
            raise AwsError(
                f"{there.group}/{there.version} of account {self.source.account} is "
                f"{there.approval}, allowed: a model that is {APPROVED} there"
            )
        for model in self.registry.models(group):
            if model.metadata.get(PROMOTED_FROM) == there.arn:
                return model, False
        request = self._request(there, f"{self.registry.project}-{group}")
        with asking(f"register {there.group}/{there.version}"):
            made = self.session.client("sagemaker").create_model_package(**request)
        return described_model(self.session, str(made["ModelPackageArn"])), True

    def _request(self, there: RegisteredModel, group: str) -> dict[str, Any]:
        """What registers it here, once all that it names lies here."""
        moved = {uri: self._copied(uri) for uri in dict.fromkeys(_uris(there))}
        if "verdict" in there.metadata:
            for name in REPORTS:
                self._copied(f"{there.metadata['verdict'].rpartition('/')[0]}/{name}", needed=False)
        kept = {key: there.description[key] for key in _KEPT if there.description.get(key)}
        return {
            **_replaced(kept, moved),
            "ModelPackageGroupName": group,
            "ModelApprovalStatus": WAITING,
            "CustomerMetadataProperties": {
                **_replaced(dict(there.metadata), moved),
                PROMOTED_FROM: there.arn,
            },
            # Two people who promote the same model at once get the same version.
            "ClientToken": hashlib.sha256(there.arn.encode()).hexdigest()[:36],
        }

    def _copied(self, uri: str, *, needed: bool = True) -> str:
        """Copy one object to the same key here; returns its URI. The key names a job or an
        execution, so no other object lies there already."""
        bucket, key = parts_of(uri)
        target = f"s3://{self.bucket}/{key}"
        if uri == target:
            return target
        source = self.session.in_region(self.source.region).client("s3")
        here = self.session.client("s3")
        with asking(f"copy {uri} to {target}"):
            try:
                here.copy({"Bucket": bucket, "Key": key}, self.bucket, key, SourceClient=source)
            except ClientError as error:
                if needed or error.response["Error"]["Code"] not in _NOT_FOR_US:
                    raise
        return target


def _uris(model: RegisteredModel) -> Iterator[str]:
    """All that a model needs to be what it is: its archives, its verdict, what is drawn of it."""
    for container in model.description.get("InferenceSpecification", {}).get("Containers", []):
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
