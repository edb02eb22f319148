"""The SageMaker pipeline and the registry of the models that it makes."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from compilegate.access import Arns
from compilegate.access.layout import assets_prefix
from compilegate.access.sharing import group_policy
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.images import ImagesStack
from compilegate.infra.parts import removal_policy
from compilegate.infra.project import DeclaredWorkload, Project
from compilegate.infra.workload.code_assets import add_code_assets
from compilegate.infra.workload.definition import incomplete_definition
from compilegate.infra.workload.roles import JobRoles
from compilegate.infra.workload.substitution import completed_by_cloudformation
from compilegate.pipelines.deployment import MadeNetwork
from compilegate.pipelines.standin import BUCKET, stand_ins
from compilegate.posture.contract import FUNCTION_KIND


class TrainingPipeline(Construct):
    """A model package group, and the pipeline that registers models in it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        declared: DeclaredWorkload,
        foundation: FoundationStack,
        images: ImagesStack,
        roles: JobRoles,
        network: MadeNetwork | None,
    ) -> None:
        super().__init__(scope, id)
        stack = cdk.Stack.of(self)
        workload, names = declared.workload, project.names
        self.name = names.pipeline(workload.name)
        self.arn = Arns.of(stack).sagemaker(f"pipeline/{self.name}")
        """Made from the name, so that what uses it does not depend on the pipeline."""
        self.models = sagemaker.CfnModelPackageGroup(
            self,
            "Models",
            # The name alone: to change a description CloudFormation would make another group, which
            # could not have the same name.
            model_package_group_name=names.model_package_group(workload),
            model_package_group_policy=group_policy(
                Arns.of(stack), names.model_package_group(workload), project.settings.readers
            )
            if project.settings.readers
            else None,
        )
        self.models.apply_removal_policy(removal_policy(project.settings.storage))
        definition = incomplete_definition(
            project,
            declared,
            region=None if cdk.Token.is_unresolved(stack.region) else stack.region,
        )
        self.definition = definition.text
        """As it is compiled, with stand-ins."""
        prefix = assets_prefix(project.settings.project, workload.name)
        self.assets = add_code_assets(stack, definition.placement, prefix)
        self.data_uri = definition.placement.sources.data.replace(BUCKET, foundation.bucket_name)
        values = {
            "region": stack.region,
            "bucket": foundation.bucket.bucket_name,
            "assets_bucket": f"{foundation.assets_bucket_name}/{prefix.removesuffix('/')}",
            "kms_key": foundation.key.key_arn,
            "training_role_arn": roles.training.role_arn,
            "processing_role_arn": roles.processing.role_arn,
            "posture_function": Arns.of(stack).function(
                names.function(workload.name, FUNCTION_KIND)
            ),
            **{f"images.{image}": uri for image, uri in images.image_uris.items()},
            **_network_values(network),
        }
        self.pipeline = sagemaker.CfnPipeline(
            self,
            "Pipeline",
            pipeline_name=self.name,
            pipeline_description=workload.description,
            role_arn=roles.pipeline.role_arn,
            parallelism_configuration=_parallelism(declared.workload.compute.max_parallel_steps),
            pipeline_definition={
                "PipelineDefinitionBody": completed_by_cloudformation(
                    definition.text,
                    stand_ins=stand_ins(
                        images.image_uris, subnets=0 if network is None else len(network.subnets)
                    ),
                    values=values,
                )
            },
        )
        self.pipeline.node.add_dependency(self.models)


def _network_values(network: MadeNetwork | None) -> dict[str, str]:
    if network is None:
        return {}
    subnets = {f"network.subnet{n}": subnet for n, subnet in enumerate(network.subnets, start=1)}
    return {**subnets, "network.security_group": network.security_group}


def _parallelism(most: int | None) -> dict[str, int] | None:
    return None if most is None else {"MaxParallelExecutionSteps": most}
