"""The local model registry: model package groups and their versions, as SageMaker describes them.

HOME/registry/GROUP/VERSION.json    a DescribeModelPackage response each, with `Origin`: which
                                    step of which execution registered it
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.expressions import Unresolved
from compilegate.job.files import lock, write_json
from compilegate.local.errors import RegistryError, StepRequestError
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.requests import ACCOUNT, RequestReader, iso_time

APPROVAL_STATUSES = ("Approved", "Rejected", "PendingManualApproval")

_GROUP_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")

_NOT_DESCRIBED = ("ClientToken", "Tags")
"""The members of a CreateModelPackage request that DescribeModelPackage does not give."""


@dataclass(frozen=True)
class ModelPackage:
    group: str
    version: int
    description: Mapping[str, Any]
    """The DescribeModelPackage response."""

    @property
    def arn(self) -> str:
        return str(self.description["ModelPackageArn"])

    @property
    def approval_status(self) -> str:
        return str(self.description["ModelApprovalStatus"])

    @property
    def execution_id(self) -> str:
        return str(self.description.get("Origin", {}).get("ExecutionId", ""))


@dataclass(frozen=True)
class PackageRequest:
    """A CreateModelPackage request, as far as the registry needs it."""

    group: str
    approval_status: str
    model_data_uris: tuple[str, ...]
    raw: Mapping[str, Any]


def read_package_request(raw: Mapping[str, Any]) -> PackageRequest:
    """Read a resolved request. Raises StepRequestError for what is missing, mistyped or
    unsupported."""
    reader = RequestReader(raw)
    if reader.has("ModelPackageName"):
        raise StepRequestError(
            "ModelPackageName (a package without versions) is not supported here, "
            "use ModelPackageGroupName"
        )
    # The service takes the group's name or its ARN.
    group = reader.text("ModelPackageGroupName")
    name = group.rpartition("/")[2] if group.startswith("arn:") else group
    if not isinstance(group, Unresolved) and not _GROUP_NAME.fullmatch(name):
        raise StepRequestError(
            f"ModelPackageGroupName is {group!r}: 1 to 63 letters, digits and '-'"
        )
    status = reader.text_or("ModelApprovalStatus", "PendingManualApproval")
    if not isinstance(status, Unresolved) and status not in APPROVAL_STATUSES:
        allowed = ", ".join(APPROVAL_STATUSES)
        raise StepRequestError(f"ModelApprovalStatus is {status!r}, expected {allowed}")
    containers = reader.section_or_empty("InferenceSpecification").sections("Containers")
    urls = tuple(item.text("ModelDataUrl") for item in containers if item.has("ModelDataUrl"))
    return PackageRequest(name, status, urls, raw)


def create_package(
    home: Path, request: PackageRequest, store: ObjectStore, *, execution_id: str, step: str
) -> ModelPackage:
    """Register a request as its group's next version.

    A step that registers again, because its execution was interrupted right after it did, gets the
    package that it made: a step registers only one.
    """
    origin = {"ExecutionId": execution_id, "Step": step}
    with lock(_lock(home, request.group)):
        packages = list_packages(home, request.group)
        for package in packages:
            if package.description.get("Origin") == origin:
                return package
        version = max((package.version for package in packages), default=0) + 1
        now = iso_time(time.time())
        raw = request.raw.items()
        described = {
            key: each for key, each in raw if each is not None and key not in _NOT_DESCRIBED
        }
        description = {
            **described,
            "ModelPackageGroupName": request.group,
            "ModelPackageVersion": version,
            "ModelPackageArn": f"{ACCOUNT}:model-package/{request.group}/{version}",
            "ModelPackageStatus": "Completed",
            "ModelApprovalStatus": request.approval_status,
            "CreationTime": now,
            "LastModifiedTime": now,
            "Origin": origin,
            **_card(request, store),
        }
        write_json(_path(home, request.group, version), description)
    return ModelPackage(request.group, version, description)


def _card(request: PackageRequest, store: ObjectStore) -> dict[str, Any]:
    """The card that the metadata name, as an account attaches it to a model once it is there."""
    uri = (request.raw.get("CustomerMetadataProperties") or {}).get("model_card")
    if request.raw.get("ModelCard") or not isinstance(uri, str) or not store.exists(uri):
        return {}
    content = store.read(uri).decode("utf-8", errors="replace")
    return {"ModelCard": {"ModelCardContent": content, "ModelCardStatus": "PendingReview"}}


def list_groups(home: Path) -> list[str]:
    """The names of all groups that have a version."""
    folder = home / "registry"
    if not folder.is_dir():
        return []
    return [each.name for each in sorted(folder.iterdir()) if any(each.glob("*.json"))]


def list_packages(home: Path, group: str) -> list[ModelPackage]:
    """All versions of a group, oldest first; none for an unknown group."""
    if not _GROUP_NAME.fullmatch(group):
        return []
    versions = sorted(int(path.stem) for path in (home / "registry" / group).glob("[0-9]*.json"))
    return [_read(home, group, version) for version in versions]


def describe_package(home: Path, reference: str) -> ModelPackage:
    """The package that an ARN or `GROUP/VERSION` names. Raises RegistryError."""
    group, version = _parse_reference(reference)
    if not _path(home, group, version).is_file():
        known = ", ".join(f"{group}/{package.version}" for package in list_packages(home, group))
        raise RegistryError(
            f"there is no model package {reference}; {known or 'the group is empty'}"
        )
    return _read(home, group, version)


def set_approval(
    home: Path, reference: str, status: str, description: str | None = None
) -> ModelPackage:
    """Approve, reject or reopen a package, as UpdateModelPackage does. Raises RegistryError."""
    if status not in APPROVAL_STATUSES:
        allowed = ", ".join(APPROVAL_STATUSES)
        raise RegistryError(f"the approval status is {status!r}, expected {allowed}")
    described = describe_package(home, reference)
    group, version = described.group, described.version
    changed = {"ModelApprovalStatus": status, "LastModifiedTime": iso_time(time.time())}
    if description is not None:
        changed["ApprovalDescription"] = description
    with lock(_lock(home, group)):
        document = {**_read(home, group, version).description, **changed}
        write_json(_path(home, group, version), document)
    return ModelPackage(group, version, document)


def _parse_reference(reference: str) -> tuple[str, int]:
    short = reference.partition(":model-package/")[2] or reference
    group, _, version = short.rpartition("/")
    if not _GROUP_NAME.fullmatch(group) or not re.fullmatch(r"[1-9][0-9]{0,8}", version):
        raise RegistryError(f"{reference!r} is neither GROUP/VERSION nor a model package's ARN")
    return group, int(version)


def _path(home: Path, group: str, version: int) -> Path:
    return home / "registry" / group / f"{version}.json"


def _read(home: Path, group: str, version: int) -> ModelPackage:
    path = _path(home, group, version)
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RegistryError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict) or "ModelApprovalStatus" not in document:
        raise RegistryError(f"{path} does not describe a model package")
    return ModelPackage(group, version, document)


def _lock(home: Path, group: str) -> Path:
    return home / "locks" / f"registry-{group}.lock"
