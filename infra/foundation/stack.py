"""The foundation: what all workloads share, and what outlives each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import aws_cdk as cdk
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from compilegate.account.settings.names import output_suffix
from compilegate.infra.access import Arns, scoped_role, service_principal
from compilegate.infra.foundation.artifacts import ArtifactBucket
from compilegate.infra.foundation.aws_images import aws_repositories
from compilegate.infra.foundation.encryption import EncryptionKey
from compilegate.infra.foundation.notifications import Notifications
from compilegate.infra.foundation.permissions import (
    Place,
    pipeline_statements,
    processing_statements,
    training_statements,
)
from compilegate.infra.foundation.registry import ImageRegistry
from compilegate.infra.project import Project
from compilegate.infra.removal import removal_policy

GATE = "gate"
"""The image folder that the gate runs in; every other one is for training."""
PREPARE = "training"
"""The image folder that the prepare step runs in."""


class FoundationStack(cdk.Stack):
    """Key, bucket, repositories, topic, schedule group, and the roles of jobs and pipelines."""

    def __init__(
        self, scope: Construct, id: str, *, project: Project, env: cdk.Environment
    ) -> None:
        super().__init__(scope, id, env=env, description="Compilegate: what all workloads share")
        settings, names = project.settings, project.names
        removal = removal_policy(settings.storage)
        self._names = names
        self.bucket_name = names.bucket(self.account, self.region)
        self.key = EncryptionKey(
            self,
            "Encryption",
            alias=names.key_alias,
            project=settings.project,
            existing_arn=settings.storage.key_arn,
            removal=removal,
        ).key
        self.bucket = ArtifactBucket(
            self,
            "Artifacts",
            name=self.bucket_name,
            key=self.key,
            storage=settings.storage,
            workloads=[declared.workload.name for declared in project.workloads],
            removal=removal,
        ).bucket
        self.repositories = ImageRegistry(
            self,
            "Images",
            names=names,
            images=list(project.images),
            key=self.key,
            keep=settings.images.keep,
            removal=removal,
        ).repositories
        self.topic = Notifications(
            self,
            "Notifications",
            name=names.topic,
            project=settings.project,
            key=self.key,
            email=settings.notifications.email,
        ).topic
        scheduler.CfnScheduleGroup(self, "Schedules", name=names.schedule_group)
        self._roles(project)
        self._outputs()
        self._exports()

    @property
    def bucket_arn(self) -> str:
        """Made from the bucket's name, so that policies in other stacks stay readable."""
        return Arns.of(self).bucket(self.bucket_name)

    def repository_arns(self, images: Sequence[str]) -> list[str]:
        return [self.repository_arn(image) for image in images]

    def repository_arn(self, image: str) -> str:
        """Made from the repository's name: CloudFormation refuses to remove a repository whose
        export is in use, and then no folder of `containers/` could ever be removed."""
        return Arns.of(self).repository(self._names.repository(image))

    @property
    def assets_bucket_name(self) -> str:
        """The bucket that `cdk bootstrap` made."""
        return assets_bucket_name(self)

    def _roles(self, project: Project) -> None:
        arns = Arns.of(self)
        place = Place(
            arns=arns,
            bucket_arn=self.bucket_arn,
            assets_arn=arns.bucket(self.assets_bucket_name),
            key_arn=self.key.key_arn,
            repository_arns=(),
            in_vpc=bool(project.settings.network.subnets),
        )
        training_images = [
            *self.repository_arns([image for image in self.repositories if image != GATE]),
            *(
                arns.repository(repository.name, repository.account)
                for repository in aws_repositories(project.workloads, self.region)
            ),
        ]
        trusted = service_principal(self, "sagemaker")
        self.training_role = scoped_role(
            self,
            "TrainingRole",
            trusted=trusted,
            description="Training jobs",
            statements=training_statements(replace(place, repository_arns=training_images)),
        )
        self.processing_role = scoped_role(
            self,
            "ProcessingRole",
            trusted=trusted,
            description="Prepare, gather and gate jobs",
            statements=processing_statements(
                replace(place, repository_arns=self.repository_arns(processing_images(project))),
                champions=[
                    declared.workload.name
                    for declared in project.workloads
                    if declared.workload.kind.against_champion
                ],
                deliveries=[
                    declared.workload.new_data.prefix
                    for declared in project.workloads
                    if declared.workload.new_data is not None
                ],
            ),
        )
        self.pipeline_role = scoped_role(
            self,
            "PipelineRole",
            trusted=trusted,
            description="Pipelines: start jobs, register models",
            statements=pipeline_statements(
                replace(place, repository_arns=training_images),
                project=project.settings.project,
                training_role_arn=self.training_role.role_arn,
                processing_role_arn=self.processing_role.role_arn,
            ),
        )

    def _outputs(self) -> None:
        outputs = {
            "BucketName": self.bucket.bucket_name,
            "KeyArn": self.key.key_arn,
            "TrainingRoleArn": self.training_role.role_arn,
            "ProcessingRoleArn": self.processing_role.role_arn,
            "PipelineRoleArn": self.pipeline_role.role_arn,
            "NotificationTopicArn": self.topic.topic_arn,
            **{
                f"RepositoryUri{output_suffix(image)}": repository.repository_uri
                for image, repository in self.repositories.items()
            },
        }
        for name, value in outputs.items():
            cdk.CfnOutput(self, name, value=value)

    def _exports(self) -> None:
        """Export what workloads import, even when there are none: the stack of a deleted workload
        may still exist, and CloudFormation refuses to remove an export that is in use."""
        for value in (
            self.key.key_arn,
            self.bucket.bucket_name,
            self.topic.topic_arn,
            *(
                role.role_arn
                for role in (self.training_role, self.processing_role, self.pipeline_role)
            ),
        ):
            if cdk.Token.is_unresolved(value):
                self.export_value(value)


def assets_bucket_name(stack: cdk.Stack) -> str:
    """The bucket that `cdk bootstrap` made in the stack's account and region."""
    qualifier = stack.synthesizer.bootstrap_qualifier
    return f"cdk-{qualifier}-assets-{stack.account}-{stack.region}"


def processing_images(project: Project) -> list[str]:
    """The image folders that prepare jobs, the gate and users' own scripts run in."""
    programs = {declared.workload.kind.processing_image[1] for declared in project.workloads}
    return [PREPARE, GATE, *sorted((programs - {PREPARE, GATE}) & project.images.keys())]
