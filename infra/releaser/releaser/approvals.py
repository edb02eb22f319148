"""Which model was approved last, and is approved still."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from releaser.facts import Facts

APPROVED = "Approved"
CHANGED = "ModelApprovalStatus"


@dataclass(frozen=True, order=True)
class Approval:
    """One approval of one version; the latest is the greatest."""

    when: str
    """In UTC, so that texts compare as times do."""
    version: int
    arn: str

    @property
    def name(self) -> str:
        """A name for it, which another approval of the same version does not share."""
        digits = "".join(letter for letter in self.when[:19] if letter.isdigit())
        return f"{self.version}-{digits}"


@dataclass(frozen=True)
class Approvals:
    """The registry's word on what is approved, and the events' word on since when."""

    sagemaker: Any
    facts: Facts
    group: str

    def remember(self, event: Mapping[str, Any]) -> None:
        """Keep the time of an approval. Other changes of an approved model, such as of its
        metadata, come as events of the same kind, and are no approval."""
        detail = event["detail"]
        changed = detail.get("UpdatedModelPackageFields") or [CHANGED]
        if detail.get("ModelApprovalStatus") != APPROVED or CHANGED not in changed:
            return
        name = f"approvals/{detail['ModelPackageVersion']}"
        known = self.facts.read(name)
        if known is None or known["when"] < event["time"]:
            self.facts.write(name, {"when": event["time"]})

    def last(self) -> Approval | None:
        """The approval that holds; None where no version is approved."""
        pages = self.sagemaker.get_paginator("list_model_packages").paginate(
            ModelPackageGroupName=self.group, ModelApprovalStatus=APPROVED
        )
        found = [
            self._approval(package)
            for page in pages
            for package in page["ModelPackageSummaryList"]
            if package.get("ModelApprovalStatus") == APPROVED
        ]
        return max(found, default=None)

    def _approval(self, package: Mapping[str, Any]) -> Approval:
        version = int(package["ModelPackageVersion"])
        known = self.facts.read(f"approvals/{version}")
        # A version that was approved before this function was deployed.
        made = package["CreationTime"].strftime("%Y-%m-%dT%H:%M:%SZ")
        when = made if known is None else known["when"]
        return Approval(when=when, version=version, arn=package["ModelPackageArn"])
