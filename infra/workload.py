"""One workload in the account: its jobs' roles, registry, pipeline, schedule and keeper."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from compilegate.access import Arns, Statement
from compilegate.access.jobs import (
    ANY,
    JOB_NAMES,
    NO_RESOURCE,
    VERSIONS,
    WORKLOAD_TAG,
    Place,
    schedule_statements,
)
from compilegate.access.layout import (
    answers_prefix,
    assets_prefix,
    deliveries_prefix,
    notices_prefix,
    verdicts_prefix,
)
from compilegate.access.policy import may, may_grant, may_list, may_objects, may_pass
from compilegate.access.sharing import group_policy
from compilegate.account.roles import job_statements
from compilegate.account.settings.reading import network_of
from compilegate.errors import CompilegateError
from compilegate.infra.definition import (
    add_code_assets,
    completed_by_cloudformation,
    incomplete_definition,
)
from compilegate.infra.endpoint import (
    SEPARATOR,
    alarm_names,
    batch_input,
    serving_role,
    watch_endpoint,
)
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.images import ImagesStack
from compilegate.infra.keeper.program import HANDLER, keeper_program
from compilegate.infra.keeper.subscriptions import (
    ENDPOINT_TYPES,
    event_pattern,
    look_input,
    new_data_pattern,
)
from compilegate.infra.limits import limits_of
from compilegate.infra.parts import (
    outputs,
    removal_policy,
    scoped_role,
    service_principal,
    stack_options,
)
from compilegate.infra.project import DeclaredWorkload, Project, deploys, endpoint_of
from compilegate.pipelines.deployment import (
    PLACEHOLDER_BUCKET,
    Network,
    ProjectNetwork,
    placeholders,
)
from compilegate.pipelines.requests import volume_key_of
from compilegate.posture.contract import FUNCTION_KIND, TABLE_VARIABLE
from compilegate.workload import Served
from compilegate.workload.declaration.schedule import Schedule

EXECUTION_NAMES = "SageMaker names an execution when it starts"
LARGEST_ENVIRONMENT = 4_000
"""Characters. Lambda allows 4 KB for all variables of a function; what stands in a template for a
value of CloudFormation is about as long as the value."""


class EnvironmentSizeError(CompilegateError):
    """What a keeper has to know is larger than Lambda allows. The message says how large."""


class WorkloadStack(cdk.Stack):
    """Each workload has roles of its own, limited to its prefixes, images and model package group:
    what one team's program does cannot reach what another team trains."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        declared: DeclaredWorkload,
        foundation: FoundationStack,
        images: ImagesStack,
        network: ProjectNetwork | None = None,
        env: cdk.Environment,
    ) -> None:
        name = declared.workload.name
        super().__init__(
            scope, id, **stack_options(project, env, f"Compilegate: the workload {name}")
        )
        cdk.Tags.of(self).add(WORKLOAD_TAG, name)
        self._project, self._declared, self._workload = project, declared, declared.workload
        self._foundation, self._arns = foundation, Arns.of(self)
        self._pipeline_name = project.names.pipeline(name)
        self._pipeline_arn = self._arns.sagemaker(f"pipeline/{self._pipeline_name}")
        """Made from the name, so that what uses it does not depend on the pipeline."""
        self._group = project.names.model_package_group(self._workload)
        self._code_prefix = assets_prefix(project.settings.project, name)
        self._keeper_name = project.names.function(name, FUNCTION_KIND)
        self._roles = self._job_roles()
        group = self._model_package_group()
        pipeline, definition = self._pipeline(images, network)
        pipeline.node.add_dependency(group)
        self._serving = deploys(self._workload)
        self.serving_role_arn = ""
        if self._serving is not None:
            served = (project, self._workload, self._serving, foundation)
            self.serving_role_arn = serving_role(self, *served)
            if self._answers:
                watch_endpoint(self, *served)
        keeper = self._keeper(definition, network_of(project.settings, network))
        if self._workload.posture is not None:
            # The definition names the function by its ARN, so CloudFormation sees no dependency.
            pipeline.node.add_dependency(keeper)
        self._rules(keeper)
        if (schedule := self._workload.schedule) is not None:
            # The target is an ARN made from a name, so CloudFormation sees no dependency.
            self._schedule(schedule).node.add_dependency(pipeline)
        budget = self._workload.budget
        if budget is not None and budget.month_usd is not None:
            budget_name = f"{self._pipeline_name}-{self.region}"
            foundation.budget(self, budget_name, WORKLOAD_TAG, name, budget.month_usd)
        outputs(
            self,
            PipelineArn=self._pipeline_arn,
            PipelineName=self._pipeline_name,
            ModelPackageGroupName=self._group,
            TrainingRoleArn=self._roles["training"].role_arn,
            ProcessingRoleArn=self._roles["processing"].role_arn,
            PipelineRoleArn=self._roles["pipeline"].role_arn,
        )

    def _job_roles(self) -> dict[str, iam.IRole]:
        """The roles of training jobs, of processing jobs and of the pipeline, by kind."""
        workload, arns, foundation = self._workload, self._arns, self._foundation
        settings = self._project.settings
        place = Place(
            workload=workload.name,
            arns=arns,
            bucket_arn=foundation.bucket_arn,
            assets_arn=arns.bucket(foundation.assets_bucket_name),
            code_prefix=self._code_prefix,
            key_arn=foundation.key.key_arn,
            in_vpc=settings.network.in_vpc,
        )
        roles: dict[str, iam.IRole] = {}
        for kind, description, statements in job_statements(
            workload,
            place,
            self._project.names,
            self._project.images,
            role_arn=lambda kind: roles[kind].role_arn,
            deliveries=[workload.new_data.prefix] if workload.new_data is not None else [],
            posture_function=arns.function(self._keeper_name) if workload.posture else None,
        ):
            roles[kind] = scoped_role(
                self,
                f"{kind.capitalize()}Role",
                given=getattr(settings.roles, kind),
                trusted=service_principal(self, "sagemaker"),
                description=description,
                statements=statements,
            )
        return roles

    def _model_package_group(self) -> sagemaker.CfnModelPackageGroup:
        readers = self._project.settings.readers
        group = sagemaker.CfnModelPackageGroup(
            self,
            "Models",
            # The name alone: to change a description CloudFormation would make another group, which
            # could not have the same name.
            model_package_group_name=self._group,
            model_package_group_policy=group_policy(self._arns, self._group, readers)
            if readers
            else None,
        )
        group.apply_removal_policy(removal_policy(self._project.settings.storage))
        return group

    def _pipeline(
        self, images: ImagesStack, network: ProjectNetwork | None
    ) -> tuple[sagemaker.CfnPipeline, str]:
        """The pipeline, and its definition as it was compiled, with placeholders."""
        workload, foundation = self._workload, self._foundation
        definition = incomplete_definition(
            self._project,
            self._declared,
            region=None if cdk.Token.is_unresolved(self.region) else self.region,
        )
        outputs(
            self,
            **add_code_assets(self, definition.placement, self._code_prefix),
            DataUri=definition.placement.sources.data.replace(
                PLACEHOLDER_BUCKET, foundation.bucket_name
            ),
        )
        subnets = [] if network is None else network.subnets
        values = {
            "region": self.region,
            "bucket": foundation.bucket.bucket_name,
            "assets_bucket": f"{foundation.assets_bucket_name}/{self._code_prefix.rstrip('/')}",
            "kms_key": foundation.key.key_arn,
            "training_role_arn": self._roles["training"].role_arn,
            "processing_role_arn": self._roles["processing"].role_arn,
            "posture_function": self._arns.function(self._keeper_name),
            **{f"images.{image}": uri for image, uri in images.image_uris.items()},
            **{f"network.subnet{n}": subnet for n, subnet in enumerate(subnets, start=1)},
            **({} if network is None else {"network.security_group": network.security_group}),
        }
        most = workload.compute.max_parallel_steps
        pipeline = sagemaker.CfnPipeline(
            self,
            "Pipeline",
            pipeline_name=self._pipeline_name,
            pipeline_description=workload.description,
            role_arn=self._roles["pipeline"].role_arn,
            parallelism_configuration=most and {"MaxParallelExecutionSteps": most},
            pipeline_definition={
                "PipelineDefinitionBody": completed_by_cloudformation(
                    definition.text,
                    placeholders=placeholders(images.image_uris, subnets=len(subnets)),
                    values=values,
                )
            },
        )
        return pipeline, definition.text

    def _schedule(self, schedule: Schedule) -> scheduler.CfnSchedule:
        """EventBridge Scheduler starts the pipeline; failed starts go to the dead letters."""
        names, retries = self._project.names, self._project.settings.scheduling
        dead_letters = self._foundation.dead_letters.queue_arn
        group = self._arns.of_service("scheduler", f"schedule-group/{names.schedule_group}")
        role = scoped_role(
            self,
            "ScheduleRole",
            given=self._project.settings.roles.schedule,
            trusted=service_principal(self, "scheduler", source_arn=group),
            description=f"Start the pipeline of {self._workload.name} on schedule",
            statements=schedule_statements(
                pipeline_arn=self._pipeline_arn, dead_letter_arn=dead_letters
            ),
        )
        made = scheduler.CfnSchedule(
            self,
            "Schedule",
            name=names.schedule(self._workload.name),
            group_name=names.schedule_group,
            description=f"Retrains {self._workload.name}",
            schedule_expression=schedule.expression,
            schedule_expression_timezone=schedule.timezone,
            state="ENABLED" if schedule.enabled else "DISABLED",
            flexible_time_window={"mode": "OFF"},
            target={
                "arn": self._pipeline_arn,
                "roleArn": role.role_arn,
                "deadLetterConfig": {"arn": dead_letters},
                "retryPolicy": {
                    "maximumRetryAttempts": retries.retry_attempts,
                    "maximumEventAgeInSeconds": retries.retry_hours * 3600,
                },
                "sageMakerPipelineParameters": {
                    "pipelineParameterList": [
                        {"name": name, "value": str(value)}
                        for name, value in schedule.parameters.given.items()
                    ]
                },
            },
        )
        outputs(self, ScheduleName=made.ref)
        return made

    def _keeper(self, definition: str, network: Network | None) -> lambda_.CfnFunction:
        """The workload's one function: it reports, queues, decides and releases. What it fails at
        twice more goes to the dead letters."""
        workload, foundation, settings = self._workload, self._foundation, self._project.settings
        description = f"Watches {workload.name}: reports, starts, decides, releases"
        log = foundation.log_group(self, "KeeperLog", f"/aws/lambda/{self._keeper_name}")
        role = scoped_role(
            self,
            "KeeperRole",
            given=settings.roles.keeper,
            # Lambda accepts only roles of its own account, and does not say which function asks.
            # pyrefly: ignore[bad-argument-type]  # the CDK names a parameter in two ways
            trusted=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=description,
            statements=[
                *self._following(),
                *self._remembering(),
                *self._releasing(),
                *(self._deciding() if workload.posture is not None else []),
                may("UseKey", "kms:Decrypt", "kms:GenerateDataKey", on=[foundation.key.key_arn]),
                may(
                    "WriteLogs",
                    "logs:CreateLogStream",
                    "logs:PutLogEvents",
                    on=[self._arns.log_group(f"/aws/lambda/{self._keeper_name}:log-stream:*")],
                    because="Lambda names the stream after the instance of the function",
                ),
            ],
        )
        app = cast(cdk.Stage, cdk.Stage.of(self))
        program = keeper_program(Path(app.outdir) / "keeper")
        code = assets.Asset(self, "KeeperCode", path=str(program))
        return lambda_.CfnFunction(
            self,
            "Keeper",
            function_name=self._keeper_name,
            description=description,
            runtime="python3.14",
            architectures=["arm64"],
            handler=HANDLER,
            code={"s3Bucket": code.s3_bucket_name, "s3Key": code.s3_object_key},
            role=role.role_arn,
            timeout=120,
            memory_size=256,
            kms_key_arn=foundation.key.key_arn,
            environment={"variables": self._variables(definition, network)},
            dead_letter_config={"targetArn": foundation.dead_letters.queue_arn},
            logging_config={"logGroup": log.ref, "logFormat": "JSON"},
        )

    def _variables(self, definition: str, network: Network | None) -> dict[str, str]:
        """The keeper's environment, as `compilegate.infra.keeper.settings` reads it."""
        workload, foundation = self._workload, self._foundation
        limits = limits_of(self._declared, definition, self.region)
        tags = {**self._project.names.tags, WORKLOAD_TAG: workload.name}
        found = {
            "WORKLOAD": workload.name,
            "PIPELINE_ARN": self._pipeline_arn,
            "MODEL_PACKAGE_GROUP": self._group,
            "BUCKET": foundation.bucket.bucket_name,
            "TOPIC_ARN": foundation.topic.topic_arn,
            "LIMITS": _compact(limits),
        }
        if workload.posture is not None:
            found[TABLE_VARIABLE] = foundation.table.ref
        if (prefix := self._delivered) is not None:
            found["NEW_DATA_PREFIX"] = prefix
        if self._answers:
            found["ENDPOINT_STACK"] = self._project.names.endpoint_stack(workload.name)
            found["ENDPOINT_ALARMS"] = self.to_json_string(self._endpoint_alarms)
        elif self._serving is not None:
            batch = self._batch(self._serving, network or Network())
            found["BATCH"] = self.to_json_string(batch)
            found["TAGS"] = _compact([{"Key": key, "Value": tags[key]} for key in tags])
        if (size := len(_compact(self.resolve(found)))) > LARGEST_ENVIRONMENT:
            raise EnvironmentSizeError(
                f"{self._declared.path}: the environment of its function is {size:,} characters, "
                f"expected at most {LARGEST_ENVIRONMENT:,}: declare shorter names of arms or fewer "
                "tags"
            )
        return found

    @property
    def _delivered(self) -> str | None:
        """What the keys of deliveries that start an execution begin with."""
        new_data = self._workload.new_data
        return new_data.prefix if new_data is not None and new_data.enabled else None

    @property
    def _answers(self) -> bool:
        """Whether approving a model changes an endpoint."""
        return endpoint_of(self._workload) is not None

    @property
    def _endpoint_alarms(self) -> list[str]:
        names = alarm_names(self._project.names.endpoint(self._workload.name))
        return [self._arns.of_service("cloudwatch", f"alarm:{name}") for name in names]

    def _batch(self, serving: Served, network: Network) -> dict[str, Any]:
        """What the keeper needs to start a batch transform."""
        workload, bucket = self._workload, self._foundation.bucket_name
        key = self._foundation.key.key_arn
        return {
            "name": self._project.names.endpoint(workload.name),
            "content_type": serving.content_types[0],
            "instance_type": serving.instance_type,
            "instance_count": serving.instance_count,
            "input": f"s3://{bucket}/{batch_input(workload, serving)}",
            "output": f"s3://{bucket}/{answers_prefix(workload.name)}",
            "key_arn": key,
            "volume_key_arn": volume_key_of(serving.instance_type, key) or "",
            "role_arn": self.serving_role_arn,
            "subnets": list(network.subnets),
            "security_groups": list(network.security_group_ids),
            "isolation": network.isolation,
        }

    def _following(self) -> list[Statement]:
        """See this pipeline's executions and models, stop one or start one, send messages."""
        return [
            may(
                "StartAndListExecutions",
                "sagemaker:DescribePipeline",
                "sagemaker:ListPipelineExecutions",
                "sagemaker:StartPipelineExecution",
                on=[self._pipeline_arn],
            ),
            may(
                "FollowAndStopExecutions",
                "sagemaker:DescribePipelineExecution",
                "sagemaker:ListPipelineExecutionSteps",
                "sagemaker:ListPipelineParametersForExecution",
                "sagemaker:StopPipelineExecution",
                on=[f"{self._pipeline_arn}/execution/*"],
                because=EXECUTION_NAMES,
            ),
            may(
                "FindTheGatesOutput",
                "sagemaker:DescribeProcessingJob",
                on=[self._arns.sagemaker("processing-job/pipelines-*")],
                because=JOB_NAMES,
            ),
            may(
                "SeeModels", "sagemaker:DescribeModelPackage", on=[self._packages], because=VERSIONS
            ),
            # A card, and nothing that would approve or reject the model.
            may(
                "AttachCards",
                "sagemaker:UpdateModelPackage",
                on=[self._packages],
                when={"Null": {"sagemaker:ModelApprovalStatus": "true"}},
                because=VERSIONS,
            ),
            may("Tell", "sns:Publish", on=[self._foundation.topic.topic_arn]),
            may("KeepWhatFailed", "sqs:SendMessage", on=[self._foundation.dead_letters.queue_arn]),
        ]

    @property
    def _packages(self) -> str:
        return self._arns.sagemaker(f"model-package/{self._group}/*")

    def _remembering(self) -> list[Statement]:
        """Read verdicts and what was delivered; keep the queue and the messages sent."""
        bucket, name = self._foundation.bucket_arn, self._workload.name
        reads = [verdicts_prefix(name), *([self._delivered] if self._delivered else [])]
        keeps = [deliveries_prefix(name), notices_prefix(name)]
        return [
            may_objects("ReadObjects", "s3:GetObject", bucket=bucket, below=reads),
            may_objects(
                "KeepObjects",
                "s3:DeleteObject",
                "s3:GetObject",
                "s3:PutObject",
                bucket=bucket,
                below=keeps,
            ),
            may_list("ListObjects", bucket, [*reads, *keeps]),
        ]

    def _deciding(self) -> list[Statement]:
        """Keep this workload's part of the posture table."""
        foundation = self._foundation
        return [
            may(
                "KeepThePosture",
                "dynamodb:GetItem",
                "dynamodb:PutItem",
                "dynamodb:Query",
                on=[foundation.table.attr_arn],
                when={
                    "ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [self._workload.name]},
                    "Null": {"dynamodb:LeadingKeys": "false"},
                },
            ),
            # DynamoDB asks for the table's key in the name of who reads or writes.
            may(
                "UseTheTablesKey",
                "kms:DescribeKey",
                "kms:Encrypt",
                "kms:ReEncryptFrom",
                "kms:ReEncryptTo",
                on=[foundation.key.key_arn],
                when={"StringEquals": {"kms:ViaService": f"dynamodb.{self.region}.amazonaws.com"}},
            ),
        ]

    def _releasing(self) -> list[Statement]:
        """What follows from an approval."""
        if self._serving is None:
            return []
        return [
            may("ListApprovals", "sagemaker:ListModelPackages", on=[ANY], because=NO_RESOURCE),
            *(self._answering() if self._answers else self._transforming()),
        ]

    def _answering(self) -> list[Statement]:
        """Set the version of the endpoint's stack, and reject one that did not hold."""
        stack = f"stack/{self._project.names.endpoint_stack(self._workload.name)}/*"
        numbered = "CloudFormation numbers a stack when it makes it"
        bootstrap = f"parameter/cdk-bootstrap/{self._project.names.qualifier}/version"
        return [
            may(
                "SeeEndpointStack",
                "cloudformation:DescribeStackEvents",
                "cloudformation:DescribeStacks",
                on=[self._arns.of_service("cloudformation", stack)],
                because=numbered,
            ),
            # CloudFormation changes the stack with the role of its deployment. With a template of
            # its own a keeper would have those rights: so it has to say which types may change.
            may(
                "ChangeVersion",
                "cloudformation:UpdateStack",
                on=[self._arns.of_service("cloudformation", stack)],
                when={
                    "ForAllValues:StringEquals": {
                        "cloudformation:ResourceTypes": list(ENDPOINT_TYPES)
                    },
                    "Null": {"cloudformation:ResourceTypes": "false"},
                },
                because=numbered,
            ),
            # Each template says which bootstrap it needs; CloudFormation reads that as who asks.
            may(
                "ReadBootstrapVersion",
                "ssm:GetParameters",
                on=[self._arns.of_service("ssm", bootstrap)],
            ),
            may("SeeAlarms", "cloudwatch:DescribeAlarms", on=self._endpoint_alarms),
            may(
                "RejectWhatFailed",
                "sagemaker:UpdateModelPackage",
                on=[self._packages],
                when={"StringEquals": {"sagemaker:ModelApprovalStatus": "Rejected"}},
                because=VERSIONS,
            ),
        ]

    def _transforming(self) -> list[Statement]:
        """Start batch transforms, with models under this workload's names."""
        name, key = self._project.names.endpoint(self._workload.name), self._foundation.key.key_arn
        request_tag = {f"aws:RequestTag/{WORKLOAD_TAG}": self._workload.name}
        named: dict[str, Any] = {
            "on": [
                self._arns.sagemaker(f"{kind}/{name}{SEPARATOR}*")
                for kind in ("model", "transform-job")
            ],
            "when": {"StringEquals": request_tag},
            "because": "Their names end in the version of the model, after two hyphens",
        }
        return [
            may("Transform", "sagemaker:CreateModel", "sagemaker:CreateTransformJob", **named),
            may("TagWhatIsMade", "sagemaker:AddTags", **named),
            may_pass("PassServingRole", self.serving_role_arn),
            may_grant("LendKeyToService", key),
            may("SeeKey", "kms:DescribeKey", on=[key]),
        ]

    def _rules(self, keeper: lambda_.CfnFunction) -> None:
        """Three at most: what happens to the workload, an hour has passed, data was delivered."""
        names, name = self._project.names, self._workload.name
        stack = self._arns.of_service("cloudformation", f"stack/{names.endpoint_stack(name)}/")
        batches = self._serving is not None and not self._answers
        pattern = event_pattern(
            pipeline_arn=self._pipeline_arn,
            group=self._group,
            endpoint_stack_arn_prefix=stack if self._answers else None,
            batch_name_prefix=f"{names.endpoint(name)}{SEPARATOR}" if batches else None,
        )
        self._rule(keeper, "Event", f"What happens to {name}", event_pattern=pattern)
        self._rule(
            keeper,
            "Hour",
            f"Looks after {name} every hour",
            schedule_expression="rate(1 hour)",
            input=_compact(look_input(name)),
        )
        if (prefix := self._delivered) is not None:
            delivered = new_data_pattern(self._foundation.bucket.bucket_name, prefix)
            self._rule(keeper, "Data", f"Data for {name} came in", event_pattern=delivered)
        lambda_.CfnPermission(
            self,
            "CallKeeper",
            action="lambda:InvokeFunction",
            function_name=keeper.ref,
            principal="events.amazonaws.com",
            source_arn=self._arns.of_service("events", f"rule/{self._pipeline_name}{SEPARATOR}*"),
        )

    def _rule(
        self,
        keeper: lambda_.CfnFunction,
        kind: str,
        description: str,
        *,
        input: str | None = None,
        **when: Any,
    ) -> None:
        events.CfnRule(
            self,
            kind,
            name=f"{self._pipeline_name}{SEPARATOR}{kind.lower()}",
            description=description,
            state="ENABLED",
            targets=[
                {
                    "id": "Keeper",
                    "arn": keeper.attr_arn,
                    "input": input,
                    "deadLetterConfig": {"arn": self._foundation.dead_letters.queue_arn},
                }
            ],
            **when,
        )


def _compact(value: Mapping[str, Any] | Sequence[Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
