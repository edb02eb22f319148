"""SageMaker's models, endpoint configurations and endpoints; moto's take no model package."""

from __future__ import annotations

from typing import Any

from tests.aws_server.cloudformation.bridge import Bridge, Made, Properties


class _Named(Bridge):
    """A resource whose `Ref` is its ARN, and whose name is an attribute."""

    service = "sagemaker"
    create_operation: str
    delete_operation: str

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        key = cls.name_property
        request = {key: name, **properties}
        answer = getattr(client, cls.create_operation)(**request)
        return Made(answer[key.replace("Name", "Arn")], {key: request[key]})

    @classmethod
    def update(cls, client: Any, made: Made, properties: Properties) -> Made:
        cls.delete(client, made.ref)
        return cls.create(client, made.attributes[cls.name_property], properties)

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        name = ref.rpartition("/")[2]
        getattr(client, cls.delete_operation)(**{cls.name_property: name})


class Model(_Named):
    type = "AWS::SageMaker::Model"
    name_property = "ModelName"
    create_operation, delete_operation = "create_model", "delete_model"


class EndpointConfig(_Named):
    type = "AWS::SageMaker::EndpointConfig"
    name_property = "EndpointConfigName"
    create_operation, delete_operation = "create_endpoint_config", "delete_endpoint_config"


class Endpoint(_Named):
    type = "AWS::SageMaker::Endpoint"
    name_property = "EndpointName"
    create_operation, delete_operation = "create_endpoint", "delete_endpoint"

    @classmethod
    def update(cls, client: Any, made: Made, properties: Properties) -> Made:
        given = {name: it for name, it in properties.items() if name != "Tags"}
        client.update_endpoint(**{**given, cls.name_property: made.attributes[cls.name_property]})
        return made
