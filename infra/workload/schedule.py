"""The schedule that starts a pipeline."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from compilegate.access import Arns
from compilegate.access.starts import schedule_statements
from compilegate.infra.parts import scoped_role, service_principal
from compilegate.infra.project import Project
from compilegate.infra.workload.pipeline import TrainingPipeline
from compilegate.workload.file import Schedule

SECONDS_AN_HOUR = 3600


class PipelineSchedule(Construct):
    """EventBridge Scheduler starts the pipeline itself; failed starts go to the queue."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        workload: str,
        schedule: Schedule,
        training: TrainingPipeline,
        dead_letter_arn: str,
    ) -> None:
        super().__init__(scope, id)
        names, retries = project.names, project.settings.scheduling
        group = Arns.of(cdk.Stack.of(self)).of_service(
            "scheduler", f"schedule-group/{names.schedule_group}"
        )
        role = scoped_role(
            self,
            "Role",
            trusted=service_principal(self, "scheduler", source_arn=group),
            description=f"Start the pipeline of {workload} on schedule",
            statements=schedule_statements(
                pipeline_arn=training.arn, dead_letter_arn=dead_letter_arn
            ),
        )
        self.schedule = scheduler.CfnSchedule(
            self,
            "Schedule",
            name=names.schedule(workload),
            group_name=names.schedule_group,
            description=f"Retrains {workload}",
            schedule_expression=schedule.expression,
            schedule_expression_timezone=schedule.timezone,
            state="ENABLED" if schedule.enabled else "DISABLED",
            flexible_time_window={"mode": "OFF"},
            target={
                "arn": training.arn,
                "roleArn": role.role_arn,
                "deadLetterConfig": {"arn": dead_letter_arn},
                "retryPolicy": {
                    "maximumRetryAttempts": retries.retry_attempts,
                    "maximumEventAgeInSeconds": retries.retry_hours * SECONDS_AN_HOUR,
                },
                "sageMakerPipelineParameters": {
                    "pipelineParameterList": [
                        {"name": name, "value": str(value)}
                        for name, value in schedule.parameters.given.items()
                    ]
                },
            },
        )
        # The target is an ARN made from a name, so CloudFormation sees no dependency.
        self.schedule.node.add_dependency(training.pipeline)
