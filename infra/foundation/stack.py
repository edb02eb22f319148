"""The foundation: what all workloads share, and what outlives each of them."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from compilegate.access import Arns
from compilegate.access.bootstrap import PROJECT_TAG, execution_role
from compilegate.account.settings.names import output_suffix
from compilegate.infra.foundation.approver import approver
from compilegate.infra.foundation.artifacts import ArtifactBucket
from compilegate.infra.foundation.dashboard import dashboard
from compilegate.infra.foundation.encryption import EncryptionKey
from compilegate.infra.foundation.notifications import Notifications
from compilegate.infra.foundation.registry import ImageRegistry
from compilegate.infra.foundation.sharing import share
from compilegate.infra.parts import removal_policy, stack_options, tagged_budget
from compilegate.infra.project import Project


class FoundationStack(cdk.Stack):
    """Key, bucket, repositories, topic, and schedule group."""

    def __init__(
        self, scope: Construct, id: str, *, project: Project, env: cdk.Environment
    ) -> None:
        super().__init__(
            scope, id, **stack_options(project, env, "Compilegate: what all workloads share")
        )
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
            deployed_by=None
            if settings.bootstrap.qualifier is not None
            else execution_role(Arns.of(self), names.qualifier),
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
        if settings.budget.month_usd is not None:
            tagged_budget(
                self,
                "Budget",
                name=f"{settings.project}-{self.region}-all",
                tag=PROJECT_TAG,
                value=settings.project,
                usd=settings.budget.month_usd,
                topic_arn=self.topic.topic_arn,
            )
        if settings.dashboard and project.workloads:
            dashboard(
                self,
                "Dashboard",
                name=f"{settings.project}-{self.region}",
                region=self.region,
                pipelines=[names.pipeline(each.workload.name) for each in project.workloads],
            )
        share(
            settings.readers,
            bucket=self.bucket,
            bucket_arn=self.bucket_arn,
            key=self.key,
            repositories=self.repositories.values(),
        )
        self.approver = approver(
            self, "Approver", project=project, bucket_arn=self.bucket_arn, key=self.key
        )
        scheduler.CfnScheduleGroup(self, "Schedules", name=names.schedule_group)
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

    def _outputs(self) -> None:
        outputs = {
            "BucketName": self.bucket.bucket_name,
            "KeyArn": self.key.key_arn,
            "NotificationTopicArn": self.topic.topic_arn,
            **({} if self.approver is None else {"ApproverRoleArn": self.approver.role_arn}),
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
        ):
            if cdk.Token.is_unresolved(value):
                self.export_value(value)


def assets_bucket_name(stack: cdk.Stack) -> str:
    """The bucket that `cdk bootstrap` made in the stack's account and region."""
    qualifier = stack.synthesizer.bootstrap_qualifier
    return f"cdk-{qualifier}-assets-{stack.account}-{stack.region}"
