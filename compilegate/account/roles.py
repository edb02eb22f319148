"""A workload's roles; and a project's account by its settings alone, without a call of AWS.

Where other tools than the CDK deploy, code lies in the project's own bucket, and failed starts have
no queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import boto3
from pydantic import BaseModel, ConfigDict

from compilegate.access import Arns
from compilegate.access.jobs import (
    Place,
    pipeline_statements,
    processing_statements,
    schedule_statements,
    training_statements,
)
from compilegate.access.layout import CODE_PREFIX
from compilegate.access.policy import Role, Statement, trust_of
from compilegate.account.registry import WAITING
from compilegate.account.settings import Names, SettingsError, read_settings
from compilegate.account.settings.declaration import Account, KeyArn, Region
from compilegate.account.settings.reading import network_of
from compilegate.catalog.images import EcrRepository, ecr_repository
from compilegate.declaration_errors import validate
from compilegate.errors import CompilegateError
from compilegate.pipelines.deployment import Deployment
from compilegate.pipelines.images import GATE
from compilegate.workload import AWS_IMAGE, Workload
from compilegate.workload.parameters import APPROVAL


class RoleLimitError(CompilegateError):
    """A role is over a limit of IAM; one sentence for each."""


@dataclass(frozen=True, kw_only=True)
class OfflineAccount:
    """An account and a region in which other tools make what the names say."""

    names: Names
    account: str
    region: str
    key_arn: str

    @property
    def partition(self) -> str:
        return str(boto3.Session().get_partition_for_region(self.region))

    @property
    def arns(self) -> Arns:
        return Arns.of(self)

    @property
    def bucket(self) -> str:
        return self.names.bucket(self.account, self.region)

    def role_arn(self, workload: str, kind: str) -> str:
        return self.arns.role(f"{self.names.pipeline(workload)}-{kind}")

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
        suffix = "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"
        registry = f"{self.account}.dkr.ecr.{self.region}.{suffix}"
        return Deployment(
            region=self.region,
            bucket=self.bucket,
            training_role_arn=self.role_arn(workload.name, "training"),
            processing_role_arn=self.role_arn(workload.name, "processing"),
            images={
                folder: f"{registry}/{self.names.repository(folder)}:{tag}"
                for folder, tag in image_tags.items()
            },
            kms_key=self.key_arn,
            network=network_of(self.names.settings),
            name_prefix=self.names.pipeline(""),
            # Without the project's own: no budget of ours counts where other tools deploy.
            tags=self.names.settings.tags,
        )


class _Options(BaseModel):
    model_config = ConfigDict(strict=True)

    account: Account
    region: Region
    key: KeyArn


def offline_account(
    settings: Path, *, account: str | None, region: str | None, key: str | None
) -> OfflineAccount:
    """The account that options and settings name together, where an option comes first.

    Raises SettingsError, with one sentence for each that neither names or that cannot be one.
    """
    declared = read_settings(settings)
    options = {
        "account": account or declared.account,
        "region": region or declared.region,
        "key": key or declared.storage.key_arn,
    }
    given = validate(
        f"--account, --region and --key, or account, region and storage.key_arn in {settings}",
        {name: value for name, value in options.items() if value is not None},
        _Options,
        SettingsError,
    )
    return OfflineAccount(
        names=Names(declared), account=given.account, region=given.region, key_arn=given.key
    )


def job_statements(
    workload: Workload,
    place: Place,
    names: Names,
    folders: Collection[str],
    *,
    role_arn: Callable[[str], str],
    deliveries: Sequence[str] = (),
    posture_function: str | None = None,
) -> Iterator[tuple[str, str, list[Statement]]]:
    """The kind, description and statements of the roles of training, of processing and of the
    pipeline. `folders` are the project's image folders; `role_arn` has the ARN of an earlier kind.

    Raises UnknownImageError if AWS has no image in the region that an arm or the model needs.
    """
    arns, name = place.arns, workload.name

    def pulled(own: Iterable[str], of_aws: Iterable[EcrRepository] = ()) -> list[str]:
        ours = [arns.repository(names.repository(folder)) for folder in own]
        return [*ours, *repository_arns(arns, of_aws)]

    used = {arm.image_folder for arm in workload.arms.values()}
    own = [folder for folder in folders if folder in used]
    trained_in = pulled(own, aws_repositories([workload], arns.region))
    served_in = pulled(serving_folders(workload), serving_repositories(workload, arns.region))
    training = replace(place, repository_arns=trained_in)
    yield "training", f"Training jobs of {name}", training_statements(training)
    processed_in = pulled(sorted({workload.kind.processing_image[1], GATE} & set(folders)))
    processing = replace(place, repository_arns=processed_in)
    yield (
        "processing",
        f"Prepare, gather and gate jobs of {name}",
        processing_statements(processing, deliveries=deliveries),
    )
    statements = pipeline_statements(
        replace(place, repository_arns=[*trained_in, *served_in]),
        group=names.model_package_group(workload),
        training_role_arn=role_arn("training"),
        processing_role_arn=role_arn("processing"),
        posture_function=posture_function,
        approved_by_people=approved_by_people(workload),
    )
    yield "pipeline", f"The pipeline of {name}: start jobs, register models", statements


def offline_roles(
    account: OfflineAccount, workload: Workload, folders: Collection[str]
) -> dict[str, Role]:
    """By kind: training, processing, pipeline, and schedule where the workload has one.

    `folders` are the project's image folders. Raises RoleLimitError.
    """
    name, arns, names = workload.name, account.arns, account.names
    bucket = arns.bucket(account.bucket)
    place = Place(
        workload=name,
        arns=arns,
        bucket_arn=bucket,
        assets_arn=bucket,
        code_prefix=CODE_PREFIX,
        key_arn=account.key_arn,
        in_vpc=names.settings.network.in_vpc,
    )
    made = job_statements(
        workload, place, names, folders, role_arn=lambda kind: account.role_arn(name, kind)
    )
    trust = trust_of("sagemaker", account.account)
    rows = [(*row, trust) for row in made]
    if workload.schedule is not None:
        pipeline = arns.sagemaker(f"pipeline/{names.pipeline(name)}")
        starting = schedule_statements(pipeline_arn=pipeline, dead_letter_arn=None)
        # A group for each workload: each is a configuration of its own.
        group = arns.of_service("scheduler", f"schedule-group/{names.schedule(name)}")
        trust = trust_of("scheduler", account.account, group)
        rows.append(("schedule", f"Start the pipeline of {name} on schedule", starting, trust))
    roles = {
        kind: Role(
            name=f"{names.pipeline(name)}-{kind}",
            description=description,
            trust=trusted,
            statements=statements,
        )
        for kind, description, statements, trusted in rows
    }
    if faults := [fault for role in roles.values() for fault in role.faults]:
        raise RoleLimitError(*faults)
    return roles


def approved_by_people(workload: Workload) -> bool:
    """Whether its executions may register models only as waiting: unless the workload declares
    another approval, for all of them or for scheduled ones."""
    scheduled = workload.schedule.parameters.given if workload.schedule is not None else {}
    return {workload.registry.approval, scheduled.get(APPROVAL, WAITING)} == {WAITING}


def serving_folders(workload: Workload) -> list[str]:
    """The image folder that models are served in; none for an image of AWS."""
    serving = workload.serving
    return [] if serving is None or serving.in_image_of_aws else [serving.image]


def aws_repositories(workloads: Iterable[Workload], region: str) -> list[EcrRepository]:
    """AWS's own images that arms use unchanged: their repositories are in AWS's accounts, in that
    region, each once.

    Raises UnknownImageError if AWS has no such image there.
    """
    found = {
        repository
        for workload in workloads
        for setup in workload.arms.values()
        if setup.image_folder == AWS_IMAGE and (stack := setup.known_stack) is not None
        if (repository := ecr_repository(stack.image.uri(region))) is not None
    }
    return sorted(found, key=lambda each: each.name)


def serving_repositories(workload: Workload, region: str) -> list[EcrRepository]:
    """The repository of AWS's image that models are served in, which whoever registers one must
    see. Raises UnknownImageError if AWS has no such image there."""
    serving = workload.serving
    if serving is None or not serving.in_image_of_aws:
        return []
    return [found] if (found := ecr_repository(serving.base_image.uri(region))) else []


def repository_arns(arns: Arns, repositories: Iterable[EcrRepository]) -> list[str]:
    return [arns.repository(each.name, each.account) for each in repositories]
