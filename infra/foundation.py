"""The foundation: what all workloads share, and what outlives each of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from compilegate.access import Arns
from compilegate.access.jobs import ANY, NO_RESOURCE, PROJECT_TAG
from compilegate.access.layout import (
    checkpoints_prefix,
    executions_prefix,
    training_prefix,
    verdicts_prefix,
)
from compilegate.access.policy import may, may_objects
from compilegate.access.sharing import of_bucket, of_key, of_repository
from compilegate.account.registry import WAITING
from compilegate.account.roles import repository_arns, serving_folders, serving_repositories
from compilegate.account.settings.declaration import Storage
from compilegate.account.settings.names import output_suffix
from compilegate.infra.bootstrap import execution_role
from compilegate.infra.parts import (
    acknowledge,
    outputs,
    removal_policy,
    scoped_role,
    service_principal,
    stack_options,
)
from compilegate.infra.project import Project
from compilegate.infra.repositories import image_repositories
from compilegate.workload import Workload

PER_CENT = ((80, "ACTUAL"), (100, "ACTUAL"), (100, "FORECASTED"))
"""Percentages of a budget at which a message is sent: of the actual or the forecast cost."""
GENERATE = ["kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext"]


class FoundationStack(cdk.Stack):
    """Key, bucket, repositories, topic, dead letters, posture table, schedule group."""

    def __init__(
        self, scope: Construct, id: str, *, project: Project, env: cdk.Environment
    ) -> None:
        super().__init__(
            scope, id, **stack_options(project, env, "Compilegate: what all workloads share")
        )
        self._project, self._arns = project, Arns.of(self)
        self._removal = removal_policy(project.settings.storage)
        self.bucket_name = project.names.bucket(self.account, self.region)
        self.key = self._key()
        self.bucket = self._bucket()
        self.repositories = image_repositories(self, project, self.key)
        self.topic = self._topic()
        self.dead_letters = self._dead_letters()
        self.table = self._posture_table()
        self.approver = self._approver()
        self._share(project.settings.readers)
        self._budget_and_dashboard()
        scheduler.CfnScheduleGroup(self, "Schedules", name=project.names.schedule_group)
        self._outputs()

    @property
    def bucket_arn(self) -> str:
        """Made from the bucket's name, so that policies in other stacks stay readable."""
        return self._arns.bucket(self.bucket_name)

    def repository_arns(self, images: Iterable[str]) -> list[str]:
        """Made from the repositories' names: CloudFormation refuses to remove a repository whose
        export is in use, and then no folder of `containers/` could ever be removed."""
        return [self._arns.repository(self._project.names.repository(image)) for image in images]

    def serving_arns(self, workloads: Iterable[Workload]) -> list[str]:
        """The repositories of the images that models of these workloads are served in."""
        declared = list(workloads)
        folders = {folder for each in declared for folder in serving_folders(each)}
        of_aws = {found for each in declared for found in serving_repositories(each, self.region)}
        return [
            *self.repository_arns(sorted(folders)),
            *sorted(repository_arns(self._arns, of_aws)),
        ]

    def promoted_arns(self, workloads: Iterable[Workload]) -> list[str]:
        """The same of the stage before: a model that was promoted is served in the image that it
        was tried in. SageMaker wants that in this region, where another stage's are replicated."""
        source = self._project.settings.source
        if source is None:
            return []
        prefix = source.repository_prefix or source.project
        folders = {folder for each in workloads for folder in serving_folders(each)}
        return [
            self._arns.repository(f"{prefix}/{folder}", source.account)
            for folder in sorted(folders)
        ]

    @property
    def assets_bucket_name(self) -> str:
        """The bucket that `cdk bootstrap` made in the account and region."""
        qualifier = self.synthesizer.bootstrap_qualifier
        return f"cdk-{qualifier}-assets-{self.account}-{self.region}"

    def log_group(self, scope: Construct, id: str, name: str) -> logs.CfnLogGroup:
        """A log group, encrypted and kept as the settings say; the key's policy has to allow its
        name."""
        days = self._project.settings.storage.log_days
        group = logs.CfnLogGroup(
            scope, id, log_group_name=name, kms_key_id=self.key.key_arn, retention_in_days=days
        )
        group.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        return group

    def alarm(
        self,
        scope: Construct,
        id: str,
        *,
        dimensions: Mapping[str, str],
        minutes: int,
        periods: int = 1,
        **watched: Any,
    ) -> None:
        """Tells people of a metric at a threshold; its name must begin with the project's."""
        cloudwatch.CfnAlarm(
            scope,
            id,
            dimensions=[{"name": key, "value": value} for key, value in dimensions.items()],
            period=60 * minutes,
            evaluation_periods=periods,
            comparison_operator="GreaterThanOrEqualToThreshold",
            treat_missing_data="notBreaching",
            alarm_actions=[self.topic.topic_arn],
            **watched,
        )

    def budget(self, scope: Construct, name: str, tag: str, value: str, usd: float) -> None:
        """A monthly budget; its name must be the only such one of the account, in all regions.

        AWS counts a tag from the day on which it is activated for cost allocation, which is done
        once for the account that pays (docs/aws.md).
        """
        subscriber = {"subscriptionType": "SNS", "address": self.topic.topic_arn}
        budgets.CfnBudget(
            scope,
            "Budget",
            budget={
                "budgetName": name,
                "budgetType": "COST",
                "timeUnit": "MONTHLY",
                "budgetLimit": {"amount": usd, "unit": "USD"},
                "costFilters": {"TagKeyValue": [f"user:{tag}${value}"]},
            },
            notifications_with_subscribers=[
                {
                    "notification": {
                        "notificationType": kind,
                        "comparisonOperator": "GREATER_THAN",
                        "threshold": per_cent,
                        "thresholdType": "PERCENTAGE",
                    },
                    "subscribers": [subscriber],
                }
                for per_cent, kind in PER_CENT
            ],
        )

    def _key(self) -> kms.IKey:
        """The one key that everything at rest is encrypted with: it rotates, and logs, alarms and
        budgets may use it."""
        settings, alias = self._project.settings, self._project.names.key_alias
        if settings.storage.key_arn is not None:
            # CloudFormation cannot change the policy of a key that it did not make.
            given = kms.Key.from_key_arn(self, "Key", settings.storage.key_arn)
            kms.Alias(self, "Alias", alias_name=alias, target_key=given)
            return given
        key = kms.Key(
            self,
            "Key",
            alias=alias,
            description=f"Everything that {settings.project} keeps",
            enable_key_rotation=True,
            removal_policy=self._removal,
        )
        if settings.bootstrap.qualifier is None:
            # The tag of a key counts only minutes after it was made, and CloudFormation goes on.
            deploys = iam.ArnPrincipal(execution_role(self._arns, self._project.names.qualifier))
            _allow(key, "Deploy", deploys, "kms:*")
        groups = ("codebuild/", "lambda/", "sagemaker/Endpoints/", "vpc/")
        logged = [self._arns.log_group(f"/aws/{group}{settings.project}-*") for group in groups]
        _allow(
            key,
            "EncryptLogGroups",
            iam.ServicePrincipal(f"logs.{self.region}.amazonaws.com"),
            *("kms:Decrypt", "kms:Encrypt", *GENERATE, "kms:ReEncryptFrom", "kms:ReEncryptTo"),
            when={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": logged}},
        )
        for sid, principal in self._senders().items():
            _allow(key, f"Send{sid}ToTheTopic", principal, "kms:Decrypt", *GENERATE)
        # pyrefly: ignore[bad-return]  # the CDK names a parameter in two ways
        return key

    def _senders(self) -> Mapping[str, iam.IPrincipal]:
        """Services that send to the topic: alarms of this project, and budgets."""
        alarms = self._arns.of_service("cloudwatch", f"alarm:{self._project.settings.project}-*")
        return {
            "Alarms": service_principal(self, "cloudwatch", source_arn=alarms),
            "Budgets": service_principal(self, "budgets"),
        }

    def _bucket(self) -> s3.IBucket:
        """Raw data, outputs of executions, models: encrypted, versioned, private. It reports new
        objects to EventBridge."""
        storage = self._project.settings.storage
        if storage.bucket is not None:
            # Its policy, lifecycle and events are the owner's (docs/aws.md).
            return s3.Bucket.from_bucket_name(self, "Bucket", storage.bucket)
        bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=self.bucket_name,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            versioned=True,
            removal_policy=self._removal,
            lifecycle_rules=_lifecycle(
                storage, [declared.workload.name for declared in self._project.workloads]
            ),
        )
        # The L2 property would add a custom resource and a function for the same effect.
        resource = cast(s3.CfnBucket, bucket.node.default_child)
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(
                event_bridge_enabled=True
            )
        )
        acknowledge(
            bucket,
            "AwsSolutions-S1",
            "CloudTrail's data events record who read what, for all buckets of an "
            "account; access logs would need a second bucket without this key.",
        )
        return bucket

    def _topic(self) -> sns.ITopic:
        """The topic of messages to people; alarms and budgets may publish to it."""
        notifications = self._project.settings.notifications
        if notifications.topic_arn is not None:
            # Who may publish there, alarms and budgets among them, its owner says (docs/aws.md).
            return sns.Topic.from_topic_arn(self, "Topic", notifications.topic_arn)
        topic = sns.Topic(
            self,
            "Topic",
            topic_name=self._project.names.topic,
            master_key=self.key,
            enforce_ssl=True,
        )
        for sid, principal in self._senders().items():
            _allow(topic, f"Publish{sid}", principal, "sns:Publish", on=topic.topic_arn)
        if notifications.email is not None:
            # pyrefly: ignore[bad-argument-type]  # the CDK names a parameter in two ways
            topic.add_subscription(subscriptions.EmailSubscription(notifications.email))
        # pyrefly: ignore[bad-return]  # and here
        return topic

    def _dead_letters(self) -> sqs.Queue:
        """The queue of what failed for good: starts on schedule, events that could not be
        delivered, and events whose function failed. One alarm goes off for all of it."""
        project = self._project.settings.project
        queue = sqs.Queue(
            self,
            "DeadLetters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        acknowledge(queue, "AwsSolutions-SQS3", "This is the dead-letter queue of the others.")
        rules = self._arns.of_service("events", f"rule/{project}-*")
        _allow(
            queue,
            "KeepWhatRulesCouldNotDeliver",
            iam.ServicePrincipal("events.amazonaws.com"),
            "sqs:SendMessage",
            on=queue.queue_arn,
            when={"ArnLike": {"aws:SourceArn": rules}},
        )
        self.alarm(
            self,
            "Undelivered",
            alarm_name=f"{project}-undelivered",
            alarm_description=f"A start or an event of {project} failed for good: it is in the "
            f"queue of dead letters of {project}-foundation, the log of its function says why",
            namespace="AWS/SQS",
            metric_name="ApproximateNumberOfMessagesVisible",
            dimensions={"QueueName": queue.queue_name},
            statistic="Maximum",
            threshold=1,
            minutes=5,
        )
        return queue

    def _posture_table(self) -> dynamodb.CfnTable:
        """Every decision on every workload's posture; a workload's keeper reaches its own only."""
        # Without a name of its own: one that was kept would block the next deployment, which then
        # begins in shadow, as with any record that was lost.
        keys = {"workload": "HASH", "part": "RANGE"}
        table = dynamodb.CfnTable(
            self,
            "Postures",
            key_schema=[{"attributeName": name, "keyType": kind} for name, kind in keys.items()],
            attribute_definitions=[{"attributeName": name, "attributeType": "S"} for name in keys],
            billing_mode="PAY_PER_REQUEST",
            point_in_time_recovery_specification={"pointInTimeRecoveryEnabled": True},
            sse_specification={
                "sseEnabled": True,
                "sseType": "KMS",
                "kmsMasterKeyId": self.key.key_arn,
            },
        )
        table.apply_removal_policy(self._removal)
        return table

    def _approver(self) -> iam.IRole | None:
        """The role of those who approve models; None where the settings name nobody."""
        settings = self._project.settings
        if not settings.approval.trusted:
            return None
        people = (iam.ArnPrincipal(arn) for arn in settings.approval.trusted)
        versions = self._arns.sagemaker(f"model-package/{settings.project}-*/*")
        numbered = "Groups come and go with workloads, and their versions are numbered"
        # With a status, so that no other member of a package can be changed alone.
        decisions = {"sagemaker:ModelApprovalStatus": [WAITING, "Approved", "Rejected"]}
        return scoped_role(
            self,
            "Approver",
            # pyrefly: ignore[bad-argument-type]  # the CDK names a parameter in two ways
            trusted=iam.CompositePrincipal(*people),
            description="People who approve models: look at them, approve, reject",
            statements=[
                may(
                    "Decide",
                    "sagemaker:UpdateModelPackage",
                    on=[versions],
                    when={"StringEquals": decisions},
                    because=numbered,
                ),
                may("SeeModels", "sagemaker:DescribeModelPackage", on=[versions], because=numbered),
                may(
                    "FindModels",
                    "sagemaker:ListModelPackageGroups",
                    "sagemaker:ListModelPackages",
                    on=[ANY],
                    because=NO_RESOURCE,
                ),
                may_objects(
                    "ReadVerdicts",
                    "s3:GetObject",
                    bucket=self.bucket_arn,
                    below=[verdicts_prefix("*")],
                ),
                may("UseKey", "kms:Decrypt", on=[self.key.key_arn]),
            ],
        )

    def _share(self, readers: Sequence[str]) -> None:
        """Let later stages read what they promote: models, verdicts, images. A key or bucket that
        this project did not make has a policy of its own, which has to say the same
        (docs/deploy.md)."""
        for document in of_bucket(self.bucket_arn, readers, self.partition):
            self.bucket.add_to_resource_policy(iam.PolicyStatement.from_json(document))
        for document in of_key(readers, self.partition):
            self.key.add_to_resource_policy(iam.PolicyStatement.from_json(document))
        for repository in self.repositories.values():
            for document in of_repository(readers, self.partition):
                repository.add_to_resource_policy(iam.PolicyStatement.from_json(document))
            reason = "An organisation's accounts are not known: a condition names it"
            acknowledge(repository, "AwsSolutions-ECR1", reason)

    def _budget_and_dashboard(self) -> None:
        settings, names = self._project.settings, self._project.names
        if settings.budget.month_usd is not None:
            name, usd = f"{settings.project}-{self.region}-all", settings.budget.month_usd
            self.budget(self, name, PROJECT_TAG, settings.project, usd)
        if settings.dashboard and self._project.workloads:
            pipelines = [names.pipeline(each.workload.name) for each in self._project.workloads]
            cloudwatch.CfnDashboard(
                self,
                "Dashboard",
                dashboard_name=f"{settings.project}-{self.region}",
                dashboard_body=json.dumps({"widgets": _graphs(self.region, pipelines)}),
            )

    def _outputs(self) -> None:
        outputs(
            self,
            BucketName=self.bucket.bucket_name,
            KeyArn=self.key.key_arn,
            NotificationTopicArn=self.topic.topic_arn,
            PostureTableName=self.table.ref,
            **({} if self.approver is None else {"ApproverRoleArn": self.approver.role_arn}),
            **{
                f"RepositoryUri{output_suffix(image)}": repository.repository_uri
                for image, repository in self.repositories.items()
            },
        )
        # Export what workloads import, even when there are none: the stack of a deleted workload
        # may still exist, and CloudFormation refuses to remove an export that is in use.
        for value in (
            self.key.key_arn,
            self.bucket.bucket_name,
            self.topic.topic_arn,
            self.dead_letters.queue_arn,
            self.table.ref,
            self.table.attr_arn,
        ):
            if cdk.Token.is_unresolved(value):
                self.export_value(value)


def _allow(
    resource: kms.Key | sns.Topic | sqs.Queue,
    sid: str,
    principal: Any,
    *actions: str,
    on: str = "*",
    when: Mapping[str, Any] | None = None,
) -> None:
    """Let a principal do this by the resource's own policy."""
    resource.add_to_resource_policy(
        iam.PolicyStatement(
            sid=sid, principals=[principal], actions=[*actions], resources=[on], conditions=when
        )
    )


TEMPORARY = {
    "checkpoints": checkpoints_prefix,
    "executions": executions_prefix,
    "training": training_prefix,
}
"""What nobody needs for longer than the settings say, by the name of its lifecycle rule."""


def _lifecycle(storage: Storage, workloads: Sequence[str]) -> list[s3.LifecycleRule]:
    """What jobs wrote expires, by workload. Registered models and verdicts have places of their
    own, which no rule names: they stay for as long as the bucket does."""
    days = {"training": storage.training_days}
    return [
        s3.LifecycleRule(
            id="overwritten-and-unfinished",
            noncurrent_version_expiration=cdk.Duration.days(storage.noncurrent_days),
            abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
        ),
        *(
            s3.LifecycleRule(
                id=f"{kind}-of-{workload}",
                prefix=prefix(workload),
                expiration=cdk.Duration.days(days.get(kind, storage.execution_days)),
            )
            for workload in workloads
            for kind, prefix in TEMPORARY.items()
        ),
    ]


DAY = 86_400
WIDTH, HEIGHT = 12, 7
"""The size of a graph; a dashboard is 24 wide."""
GRAPHS = (
    ("Executions started", "ExecutionStarted", "Sum"),
    ("Executions failed", "ExecutionFailed", "Sum"),
    ("Executions stopped", "ExecutionStopped", "Sum"),
    ("Duration of an execution", "ExecutionDuration", "Average"),
)
"""Title, metric and statistic of each graph, with a line for each pipeline."""


def _graphs(region: str, pipelines: Sequence[str]) -> list[dict[str, Any]]:
    """The dashboard's graphs of these pipelines, by name: they need not be there yet."""
    namespace = "AWS/Sagemaker/ModelBuildingPipeline"
    return [
        {
            "type": "metric",
            "x": number % 2 * WIDTH,
            "y": number // 2 * HEIGHT,
            "width": WIDTH,
            "height": HEIGHT,
            "properties": {
                "title": title,
                "region": region,
                "view": "timeSeries",
                "stat": statistic,
                "period": DAY,
                "metrics": [
                    [namespace, metric, "PipelineName", pipeline, {"label": pipeline}]
                    for pipeline in pipelines
                ],
            },
        }
        for number, (title, metric, statistic) in enumerate(GRAPHS)
    ]
