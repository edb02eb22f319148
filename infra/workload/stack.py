"""One workload's stack."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from compilegate.access.jobs import WORKLOAD_TAG
from compilegate.account.settings.reading import network_of
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.functions import DeadLetters
from compilegate.infra.images import ImagesStack
from compilegate.infra.limits.figures import limits_of
from compilegate.infra.parts import stack_options, tagged_budget
from compilegate.infra.posture import Posture, PostureRecord, tell_changes
from compilegate.infra.project import DeclaredWorkload, Project
from compilegate.infra.workload.alarms import Alarms
from compilegate.infra.workload.new_data import starter
from compilegate.infra.workload.notifier import notifier
from compilegate.infra.workload.pipeline import TrainingPipeline
from compilegate.infra.workload.release import Release
from compilegate.infra.workload.roles import JobRoles
from compilegate.infra.workload.schedule import PipelineSchedule
from compilegate.pipelines.deployment import MadeNetwork


class WorkloadStack(cdk.Stack):
    """Roles, pipeline, registry, schedule, notifier and alarms of one workload."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        declared: DeclaredWorkload,
        foundation: FoundationStack,
        images: ImagesStack,
        network: MadeNetwork | None = None,
        env: cdk.Environment,
    ) -> None:
        name = declared.workload.name
        super().__init__(
            scope, id, **stack_options(project, env, f"Compilegate: the workload {name}")
        )
        roles = JobRoles(self, "Jobs", project=project, declared=declared, foundation=foundation)
        training = TrainingPipeline(
            self,
            "Training",
            project=project,
            declared=declared,
            foundation=foundation,
            images=images,
            roles=roles,
            network=network,
        )
        budget = declared.workload.budget
        if budget is not None and budget.month_usd is not None:
            tagged_budget(
                self,
                "Budget",
                name=f"{training.name}-{self.region}",
                tag=WORKLOAD_TAG,
                value=name,
                usd=budget.month_usd,
                topic_arn=foundation.topic.topic_arn,
            )
        dead_letters = DeadLetters(self, "DeadLetters")
        record = None
        if declared.workload.posture is not None:
            record = PostureRecord(self, "Record", project=project, foundation=foundation)
        functions = {
            "notifier": notifier(
                self,
                "Notifier",
                project=project,
                workload=name,
                group=project.names.model_package_group(declared.workload),
                pipeline_arn=training.arn,
                foundation=foundation,
                dead_letters=dead_letters,
                limits=limits_of(declared, training.definition, self.region),
                also=() if record is None else record.change_statements,
            )
        }
        if record is not None:
            posture = Posture(
                self,
                "Posture",
                project=project,
                workload=name,
                pipeline_arn=training.arn,
                foundation=foundation,
                dead_letters=dead_letters,
                record=record,
            )
            functions["posture"] = posture.function
            tell_changes(
                self, record=record, notifier=functions["notifier"], dead_letters=dead_letters
            )
            # The definition names the function by its ARN, so CloudFormation sees no dependency.
            training.pipeline.node.add_dependency(posture.function)
            cdk.CfnOutput(self, "PostureTableName", value=record.table.ref)
        schedule = declared.workload.schedule
        if schedule is not None:
            clock = PipelineSchedule(
                self,
                "Clock",
                project=project,
                workload=name,
                schedule=schedule,
                training=training,
                dead_letter_arn=dead_letters.queue.queue_arn,
            )
            cdk.CfnOutput(self, "ScheduleName", value=clock.schedule.ref)
        new_data = declared.workload.new_data
        if new_data is not None:
            functions["starter"] = starter(
                self,
                "Starter",
                project=project,
                workload=name,
                new_data=new_data,
                training=training,
                foundation=foundation,
                dead_letters=dead_letters,
            )
        if Release.is_needed(declared.workload):
            release = Release(
                self,
                "Release",
                project=project,
                workload=declared.workload,
                foundation=foundation,
                dead_letters=dead_letters,
                network=network_of(project.settings, network),
            )
            functions["releaser"] = release.function
        Alarms(
            self,
            "Alarms",
            pipeline_name=training.name,
            queue_name=dead_letters.queue.queue_name,
            functions={kind: function.function.ref for kind, function in functions.items()},
            topic_arn=foundation.topic.topic_arn,
        )
        outputs = {
            "PipelineArn": training.arn,
            "PipelineName": training.name,
            "ModelPackageGroupName": project.names.model_package_group(declared.workload),
            "TrainingArchiveUri": training.assets.training_archive,
            "TrainingCodeUri": training.assets.training_code,
            "GateCodeUri": training.assets.gate_code,
            "ExperimentUri": training.assets.experiment,
            "DataUri": training.data_uri,
            **roles.outputs,
        }
        for key, value in outputs.items():
            cdk.CfnOutput(self, key, value=value)
