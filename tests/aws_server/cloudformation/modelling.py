"""SageMaker's pipelines and model package groups."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from moto.sagemaker.models import sagemaker_backends

from tests.aws_server.accounts import GROUP_POLICIES
from tests.aws_server.cloudformation.bridge import Bridge, Made, Properties


class Pipeline(Bridge):
    type = "AWS::SageMaker::Pipeline"
    service = "sagemaker"
    name_property = "PipelineName"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        request = _pipeline_request(name, properties)
        client.create_pipeline(ClientRequestToken=uuid4().hex, **request)
        return Made(name)

    @classmethod
    def update(cls, client: Any, made: Made, properties: Properties) -> Made:
        request = _pipeline_request(made.ref, properties)
        request.pop("Tags", None)
        client.update_pipeline(**request)
        return made

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        client.delete_pipeline(PipelineName=ref, ClientRequestToken=uuid4().hex)


class ModelPackageGroup(Bridge):
    type = "AWS::SageMaker::ModelPackageGroup"
    service = "sagemaker"
    name_property = "ModelPackageGroupName"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        request = {**properties, "ModelPackageGroupName": name}
        policy = request.pop("ModelPackageGroupPolicy", None)
        arn = client.create_model_package_group(**request)["ModelPackageGroupArn"]
        if policy is not None:
            GROUP_POLICIES[arn] = policy
        return Made(arn, {"ModelPackageGroupArn": arn, "ModelPackageGroupStatus": "Completed"})

    @classmethod
    def update(cls, client: Any, made: Made, properties: Properties) -> Made:
        name = made.ref.rpartition("/")[2]
        GROUP_POLICIES.pop(made.ref, None)
        if "ModelPackageGroupPolicy" in properties:
            GROUP_POLICIES[made.ref] = properties["ModelPackageGroupPolicy"]
        described = client.describe_model_package_group(ModelPackageGroupName=name)
        key = "ModelPackageGroupDescription"
        if properties.get(key) != described.get(key):
            raise ValueError(
                "CloudFormation cannot update a stack when a custom-named resource requires "
                f"replacing: {key}"
            )
        return made

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        # moto has no DeleteModelPackageGroup.
        _, _, _, region, account, resource = ref.split(":", 5)
        backend, name = sagemaker_backends[account][region], resource.rpartition("/")[2]
        if any(
            package.model_package_group_name == name for package in backend.model_packages.values()
        ):
            raise ValueError(
                f"Model Package Group cannot be deleted, because {name} still has Model Packages"
            )
        backend.model_package_groups.pop(name, None)


def _pipeline_request(name: str, properties: Properties) -> dict[str, Any]:
    request = {**properties, "PipelineName": name}
    definition = request.pop("PipelineDefinition")
    if "PipelineDefinitionBody" in definition:
        request["PipelineDefinition"] = definition["PipelineDefinitionBody"]
        json.loads(request["PipelineDefinition"])  # the service refuses what is no JSON
    else:
        location = definition["PipelineDefinitionS3Location"]
        request["PipelineDefinitionS3Location"] = {
            "Bucket": location["Bucket"],
            "ObjectKey": location["Key"],
        }
    return request
