"""The roles of one workload, as those who make roles themselves need them.

The statements are those of the CDK app's stacks: what differs is where code lies, which is the
project's own bucket here, and that failed starts have no queue.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from compilegate.access.jobs import (
    Place,
    pipeline_statements,
    processing_statements,
    training_statements,
)
from compilegate.access.layout import CODE_PREFIX
from compilegate.access.role import Role, trust_of
from compilegate.access.starts import schedule_statements
from compilegate.account.named.place import NamedPlace
from compilegate.account.named.pulled import (
    arm_folders,
    aws_repositories,
    processing_folders,
    repository_arns,
    serving_folders,
    serving_repositories,
)
from compilegate.errors import CompilegateError
from compilegate.workload import Workload


class RoleLimitError(CompilegateError):
    """A role is over a limit of IAM; one sentence for each."""


def named_roles(place: NamedPlace, workload: Workload, folders: Collection[str]) -> dict[str, Role]:
    """By kind: training, processing, pipeline, and schedule where the workload has one.

    `folders` are the project's image folders. Raises RoleLimitError.
    """
    name, arns, names = workload.name, place.arns, place.names
    bucket = arns.bucket(place.bucket)

    def repositories(used: Collection[str]) -> list[str]:
        return [arns.repository(names.repository(folder)) for folder in used]

    training = [
        *repositories(arm_folders(workload, folders)),
        *repository_arns(arns, aws_repositories([workload], place.region)),
    ]
    serving = [
        *repositories(serving_folders(workload)),
        *repository_arns(arns, serving_repositories(workload, place.region)),
    ]
    about = Place(
        workload=name,
        arns=arns,
        bucket_arn=bucket,
        assets_arn=bucket,
        code_prefix=CODE_PREFIX,
        key_arn=place.key_arn,
        repository_arns=training,
        in_vpc=names.settings.network.in_vpc,
    )
    trusted = trust_of("sagemaker", place.account)
    roles = {
        "training": Role(
            name=place.role(name, "training"),
            description=f"Training jobs of {name}",
            trust=trusted,
            statements=training_statements(about),
        ),
        "processing": Role(
            name=place.role(name, "processing"),
            description=f"Prepare, gather and gate jobs of {name}",
            trust=trusted,
            statements=processing_statements(
                replace(about, repository_arns=repositories(processing_folders(workload, folders))),
                deliveries=[],
            ),
        ),
        "pipeline": Role(
            name=place.role(name, "pipeline"),
            description=f"The pipeline of {name}: start jobs, register models",
            trust=trusted,
            statements=pipeline_statements(
                replace(about, repository_arns=[*training, *serving]),
                group=names.model_package_group(workload),
                training_role_arn=place.role_arn(name, "training"),
                processing_role_arn=place.role_arn(name, "processing"),
                approved_by_people=bool(names.settings.approval.trusted),
            ),
        ),
    }
    if workload.schedule is not None:
        # A group for each workload: each is a configuration of its own.
        group = arns.of_service("scheduler", f"schedule-group/{names.schedule(name)}")
        roles["schedule"] = Role(
            name=place.role(name, "schedule"),
            description=f"Start the pipeline of {name} on schedule",
            trust=trust_of("scheduler", place.account, group),
            statements=schedule_statements(
                pipeline_arn=arns.sagemaker(f"pipeline/{names.pipeline(name)}"),
                dead_letter_arn=None,
            ),
        )
    if faults := [fault for role in roles.values() for fault in role.faults]:
        raise RoleLimitError(*faults)
    return roles
