"""The models that are registered in the account: which there are, and which may be deployed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compilegate.access import Arns
from compilegate.account.errors import AwsError, absent_is, aws_errors
from compilegate.account.object_store import object_at
from compilegate.account.session import AwsSession

VERSION = re.compile(
    r"(?:(?P<arn>arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}):model-package/)?"
    r"(?P<group>[a-zA-Z0-9](?:-*[a-zA-Z0-9]){0,62})/(?P<version>[1-9][0-9]{0,8})"
)
COMPLETED = "Completed"
APPROVED, WAITING = "Approved", "PendingManualApproval"


@dataclass(frozen=True)
class RegisteredModel:
    group: str
    version: int
    description: Mapping[str, Any]
    """What DescribeModelPackage answers, with times as text."""

    @property
    def name(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def arn(self) -> str:
        return str(self.description["ModelPackageArn"])

    @property
    def approval(self) -> str:
        return str(self.description["ModelApprovalStatus"])

    @property
    def metadata(self) -> Mapping[str, str]:
        """The pipeline's metadata of it: its workload, arm, seed, verdict."""
        return self.description.get("CustomerMetadataProperties") or {}


@dataclass(frozen=True)
class Registry:
    """The groups of one project."""

    session: AwsSession
    project: str

    def groups(self) -> list[str]:
        operation, member = "list_model_package_groups", "ModelPackageGroupSummaryList"
        ours = f"{self.project}-"
        with aws_errors("list the model package groups"):
            groups = self.session.listed("sagemaker", operation, member, NameContains=ours)
            found = [str(group["ModelPackageGroupName"]) for group in groups]
        return sorted(name for name in found if name.startswith(ours))

    def models(self, group: str) -> list[RegisteredModel]:
        """Every version of a group, oldest first. Raises AwsError for an unknown group."""
        name, groups = self._full(group), self.groups()
        if name not in groups:
            raise AwsError(
                f"there is no model package group {name} in account {self.session.account}, "
                f"{self.session.region}; there are: {', '.join(groups) or 'none'}"
            )
        operation, member = "list_model_packages", "ModelPackageSummaryList"
        with aws_errors(f"list the models of {name}"):
            listed = self.session.listed("sagemaker", operation, member, ModelPackageGroupName=name)
            arns = [str(package["ModelPackageArn"]) for package in listed]
        found = [described_model(self.session, arn) for arn in arns]
        return sorted(found, key=lambda each: each.version)

    def describe(self, reference: str) -> RegisteredModel:
        """The model that an ARN or GROUP/VERSION names, the project's name in front or not."""
        found = VERSION.fullmatch(reference)
        if found is None:
            raise AwsError(f"{reference!r} is neither GROUP/VERSION nor a model package's ARN")
        if found["arn"]:
            return described_model(self.session, reference)
        group = self._full(found["group"])
        arn = Arns.of(self.session).sagemaker(f"model-package/{group}/{found['version']}")
        return described_model(self.session, arn)

    def decide(self, reference: str, status: str, reason: str | None) -> RegisteredModel:
        """Approve or reject a model; one that is already as asked is left alone.

        Raises AwsError, also for a model whose registration has not ended well.
        """
        before = self.describe(reference)
        why = before.description.get("ApprovalDescription")
        if before.approval == status and reason in {None, why}:
            return before
        registration = before.description.get("ModelPackageStatus", COMPLETED)
        if registration != COMPLETED:
            raise AwsError(f"{before.name} is {registration}, allowed: a model that is {COMPLETED}")
        request = {"ModelPackageArn": before.arn, "ModelApprovalStatus": status}
        if reason is not None:
            request["ApprovalDescription"] = reason
        with aws_errors(f"decide about {before.name}"):
            self.session.client("sagemaker").update_model_package(**request)
        after = described_model(self.session, before.arn)
        # The service has no condition on what was there before, so it is asked what is there now.
        if after.approval != status:
            raise AwsError(
                f"{after.name} is {after.approval} now: somebody else decided at the same time; "
                f"look at it with: compilegate models show {after.name} --aws"
            )
        return after

    def object_at(self, uri: str) -> bytes | None:
        return object_at(self.session, uri)

    def _full(self, group: str) -> str:
        return group if group.startswith(f"{self.project}-") else f"{self.project}-{group}"


def described_model(session: AwsSession, arn: str) -> RegisteredModel:
    """The model of an ARN, which may be of another account. Raises AwsError."""
    *_, region, account, resource = arn.split(":")
    name = resource.partition("/")[2]
    missing = AwsError(
        f"there is no model {name} in account {account}, {region}; list them with: "
        "compilegate models --aws"
    )
    with aws_errors(f"read {name}"), absent_is(missing):
        client = session.in_region(region).client("sagemaker")
        answer = client.describe_model_package(ModelPackageName=arn)
    answer.pop("ResponseMetadata", None)
    group, _, version = name.rpartition("/")
    return RegisteredModel(group, int(version), _as_text(answer))


def _as_text(value: Any) -> Any:
    """Times as text, so that all of it is JSON."""
    if isinstance(value, Mapping):
        return {str(key): _as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value
