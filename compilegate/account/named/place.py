"""Where a project will be, from its settings alone: nothing is asked, so nothing need be there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import boto3
from pydantic import TypeAdapter, ValidationError

from compilegate.access import Arns
from compilegate.account.settings import Names, SettingsError, read_settings
from compilegate.account.settings.declaration import Account, KeyArn, Region
from compilegate.account.settings.reading import network_of
from compilegate.pipelines.deployment import Deployment
from compilegate.workload import Workload

SUFFIXES = {"aws-cn": "amazonaws.com.cn"}
"""What a registry's name ends in, where it is not `amazonaws.com`."""
_ALLOWED: dict[str, tuple[TypeAdapter[str], str, str]] = {
    "account": (TypeAdapter(Account), "twelve digits", "account"),
    "region": (TypeAdapter(Region), "a region, as in us-east-1", "region"),
    "key": (TypeAdapter(KeyArn), "arn:aws:kms:REGION:ACCOUNT:key/ID", "storage.key_arn"),
}


@dataclass(frozen=True, kw_only=True)
class NamedPlace:
    """An account and a region in which other tools make what the names say."""

    names: Names
    account: str
    region: str
    key_arn: str

    @property
    def arns(self) -> Arns:
        return Arns(partition=self.partition, region=self.region, account=self.account)

    @property
    def partition(self) -> str:
        return str(boto3.Session().get_partition_for_region(self.region))

    @property
    def bucket(self) -> str:
        return self.names.bucket(self.account, self.region)

    def role(self, workload: str, kind: str) -> str:
        """The name of a role: `training`, `processing`, `pipeline` or `schedule`."""
        return f"{self.names.pipeline(workload)}-{kind}"

    def role_arn(self, workload: str, kind: str) -> str:
        return self.arns.role(self.role(workload, kind))

    def image(self, folder: str, tag: str) -> str:
        suffix = SUFFIXES.get(self.partition, "amazonaws.com")
        registry = f"{self.account}.dkr.ecr.{self.region}.{suffix}"
        return f"{registry}/{self.names.repository(folder)}:{tag}"

    def check(self, workload: Workload) -> None:
        """Raises SettingsError for what needs more than roles and a pipeline."""
        if workload.posture is not None:
            raise SettingsError(
                f"workloads/{workload.name}.toml: posture: found [posture], allowed: none where "
                "other tools deploy, since the function that keeps it is made by `make deploy`"
            )

        if self.names.settings.network.create:
            raise SettingsError(
                "infra/settings.toml: network.create: found true, allowed: subnets and "
                "security_groups of a VPC that is there, where other tools deploy"
            )

    def deployment(self, workload: Workload, image_tags: Mapping[str, str]) -> Deployment:
        """What the workload's definition is compiled for. Code lies in the project's own bucket.

        Raises SettingsError.
        """
        self.check(workload)
        return Deployment(
            region=self.region,
            bucket=self.bucket,
            training_role_arn=self.role_arn(workload.name, "training"),
            processing_role_arn=self.role_arn(workload.name, "processing"),
            images={folder: self.image(folder, tag) for folder, tag in image_tags.items()},
            kms_key=self.key_arn,
            network=network_of(self.names.settings),
            name_prefix=self.names.pipeline(""),
            # Without the project's own: no budget of ours counts where other tools deploy.
            tags=self.names.settings.tags,
        )


def given_place(
    settings: Path, *, account: str | None, region: str | None, key: str | None
) -> NamedPlace:
    """The place that options and settings name together, where an option comes first.

    Raises SettingsError, with one sentence for each that neither names or that cannot be one.
    """
    declared = read_settings(settings)
    given = {
        "account": account or declared.account,
        "region": region or declared.region,
        "key": key or declared.storage.key_arn,
    }
    faults = []
    for option, value in given.items():
        adapter, allowed, name = _ALLOWED[option]
        if value is None:
            faults.append(f"--{option}: found none, allowed: {allowed}, or {name} in {settings}")
            continue
        try:
            adapter.validate_python(value)
        except ValidationError:
            faults.append(f"--{option}: found {value!r}, allowed: {allowed}")
    if faults:
        raise SettingsError(*faults)
    return NamedPlace(
        names=Names(declared),
        account=str(given["account"]),
        region=str(given["region"]),
        key_arn=str(given["key"]),
    )
