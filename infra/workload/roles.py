"""The roles of one workload: its training jobs, its processing jobs, its pipeline.

Each workload has its own, limited to its prefixes, its images and its model package group: what one
team's program does cannot reach what another team trains.
"""

from __future__ import annotations

from dataclasses import replace

import aws_cdk as cdk
from constructs import Construct

from compilegate.access import Arns
from compilegate.access.jobs import (
    Place,
    pipeline_statements,
    processing_statements,
    training_statements,
)
from compilegate.access.layout import assets_prefix
from compilegate.account.named import (
    approved_by_people,
    arm_folders,
    aws_repositories,
    processing_folders,
    repository_arns,
    serving_folders,
    serving_repositories,
)
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.parts import scoped_role, service_principal
from compilegate.infra.project import DeclaredWorkload, Project
from compilegate.posture.contract import FUNCTION_KIND


class JobRoles(Construct):
    """What SageMaker may do for one workload."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        declared: DeclaredWorkload,
        foundation: FoundationStack,
    ) -> None:
        super().__init__(scope, id)
        stack, workload = cdk.Stack.of(self), declared.workload
        arns = Arns.of(stack)
        place = Place(
            workload=workload.name,
            arns=arns,
            bucket_arn=foundation.bucket_arn,
            assets_arn=arns.bucket(foundation.assets_bucket_name),
            code_prefix=assets_prefix(project.settings.project, workload.name),
            key_arn=foundation.key.key_arn,
            repository_arns=(),
            in_vpc=project.settings.network.in_vpc,
        )
        training = [
            *foundation.repository_arns(arm_folders(workload, project.images)),
            *repository_arns(arns, aws_repositories([workload], stack.region)),
        ]
        serving = [
            *foundation.repository_arns(serving_folders(workload)),
            *repository_arns(arns, serving_repositories(workload, stack.region)),
        ]
        processing = processing_folders(workload, project.images)
        trusted = service_principal(self, "sagemaker")
        self.training = scoped_role(
            self,
            "TrainingRole",
            trusted=trusted,
            description=f"Training jobs of {workload.name}",
            statements=training_statements(replace(place, repository_arns=training)),
        )
        self.processing = scoped_role(
            self,
            "ProcessingRole",
            trusted=trusted,
            description=f"Prepare, gather and gate jobs of {workload.name}",
            statements=processing_statements(
                replace(place, repository_arns=foundation.repository_arns(processing)),
                deliveries=[workload.new_data.prefix] if workload.new_data is not None else [],
            ),
        )
        self.pipeline = scoped_role(
            self,
            "PipelineRole",
            trusted=trusted,
            description=f"The pipeline of {workload.name}: start jobs, register models",
            statements=pipeline_statements(
                replace(place, repository_arns=[*training, *serving]),
                group=project.names.model_package_group(workload),
                training_role_arn=self.training.role_arn,
                processing_role_arn=self.processing.role_arn,
                posture_function=arns.function(project.names.function(workload.name, FUNCTION_KIND))
                if workload.posture is not None
                else None,
                approved_by_people=approved_by_people(workload),
            ),
        )

    @property
    def outputs(self) -> dict[str, str]:
        """What the client compiles and starts jobs with."""
        return {
            "TrainingRoleArn": self.training.role_arn,
            "ProcessingRoleArn": self.processing.role_arn,
            "PipelineRoleArn": self.pipeline.role_arn,
        }
