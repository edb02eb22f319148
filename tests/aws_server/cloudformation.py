"""CloudFormation resource types that moto lacks.

Each type turns a template's properties into calls of boto3 against this same server, so that
botocore checks what the template says as it would check a caller.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from uuid import uuid4

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from moto.cloudformation.exceptions import UnformattedGetAttTemplateException, ValidationError
from moto.core.common_models import CloudFormationModel
from moto.sagemaker.models import sagemaker_backends

from tests.aws_server.accounts import GROUP_POLICIES

Properties = Mapping[str, Any]
"""Of a resource in a template, with all references resolved."""
_GONE = ("NoSuch", "NotFound", "does not exist")


@dataclass(frozen=True)
class Made:
    """A resource that exists: what `Ref` and `Fn::GetAtt` answer."""

    ref: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceType:
    """How resources of one type are created, deleted and updated."""

    type: str
    """As in templates: `AWS::SageMaker::Pipeline`."""
    service: str
    """boto3's name of its service."""
    create: Callable[[Any, str, Properties], Made]
    """Takes a client, the declared name or CloudFormation's own, and the properties."""
    delete: Callable[[Any, str], object]
    update: Callable[[Any, Made, Properties], Made] | None = None
    """None: a change deletes the resource and creates it again."""
    name_property: str = ""
    """The property that holds its name; empty where it has none."""

    def change(self, client: Any, made: Made, properties: Properties) -> Made:
        """Update a resource, or replace it."""
        if self.update is not None:
            return self.update(client, made, properties)
        self.delete(client, made.ref)
        known = made.attributes.get(self.name_property, made.ref)
        return self.create(client, properties.get(self.name_property, known), properties)


Create = Callable[[Any, str, Properties], Made]


def created_by(operation: str, arn: str, name_property: str, *, ref_is_arn: bool = False) -> Create:
    """A create function that calls one operation with the properties as they are."""

    def create(client: Any, name: str, properties: Properties) -> Made:
        # moto gives a resource that an update adds a name of its own, whatever is declared.
        request = {name_property: name, **properties}
        answer = getattr(client, operation)(**request)
        attributes = {"Arn": answer[arn], name_property: request[name_property]}
        return Made(answer[arn] if ref_is_arn else request[name_property], attributes)

    return create


def deleted_by(operation: str, parameter: str) -> Callable[[Any, str], object]:
    """A delete function that calls one operation with the resource's name."""
    return lambda client, ref: getattr(client, operation)(**{parameter: ref.rpartition("/")[2]})


def create_pipeline(client: Any, name: str, properties: Properties) -> Made:
    request = _pipeline_request(name, properties)
    client.create_pipeline(ClientRequestToken=uuid4().hex, **request)
    return Made(name)


def update_pipeline(client: Any, made: Made, properties: Properties) -> Made:
    request = _pipeline_request(made.ref, properties)
    request.pop("Tags", None)
    client.update_pipeline(**request)
    return made


def _pipeline_request(name: str, properties: Properties) -> dict[str, Any]:
    request = {**properties, "PipelineName": name}
    request["PipelineDefinition"] = request["PipelineDefinition"]["PipelineDefinitionBody"]
    json.loads(request["PipelineDefinition"])  # the service refuses what is no JSON
    return request


def create_group(client: Any, name: str, properties: Properties) -> Made:
    request = {**properties, "ModelPackageGroupName": name}
    policy = request.pop("ModelPackageGroupPolicy", None)
    arn = client.create_model_package_group(**request)["ModelPackageGroupArn"]
    if policy is not None:
        GROUP_POLICIES[arn] = policy
    return Made(arn, {"ModelPackageGroupArn": arn, "ModelPackageGroupStatus": "Completed"})


def update_group(_client: Any, made: Made, properties: Properties) -> Made:
    GROUP_POLICIES.pop(made.ref, None)
    if "ModelPackageGroupPolicy" in properties:
        GROUP_POLICIES[made.ref] = properties["ModelPackageGroupPolicy"]
    return made


def delete_group(_client: Any, ref: str) -> None:
    """Delete a group; moto has no DeleteModelPackageGroup."""
    _, _, _, region, account, resource = ref.split(":", 5)
    backend, name = sagemaker_backends[account][region], resource.rpartition("/")[2]
    if any(each.model_package_group_name == name for each in backend.model_packages.values()):
        raise ValueError(
            f"Model Package Group cannot be deleted, because {name} still has Model Packages"
        )
    backend.model_package_groups.pop(name, None)


def update_endpoint(client: Any, made: Made, properties: Properties) -> Made:
    given = {key: value for key, value in properties.items() if key != "Tags"}
    client.update_endpoint(**{**given, "EndpointName": made.attributes["EndpointName"]})
    return made


def update_schedule(client: Any, made: Made, properties: Properties) -> Made:
    client.update_schedule(**{**properties, "Name": made.ref})
    return made


def delete_schedule(client: Any, ref: str) -> None:
    for schedule in client.list_schedules(NamePrefix=ref)["Schedules"]:
        if schedule["Name"] == ref:
            client.delete_schedule(GroupName=schedule["GroupName"], Name=ref)


def create_project(client: Any, name: str, properties: Properties) -> Made:
    request = _camel_case({**properties, "Name": name})
    source = request["source"]
    if "buildSpec" in source:
        source["buildspec"] = source.pop("buildSpec")
    source.setdefault("location", "none")  # moto wants one even of a project without a source
    return Made(name, {"Arn": client.create_project(**request)["project"]["arn"]})


def _camel_case(value: Any) -> Any:
    """Templates say `ServiceRole` where the service's own interface says `serviceRole`."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: _camel_case(item) for key, item in value.items()}
    return [_camel_case(item) for item in value] if isinstance(value, list) else value


def create_oidc_provider(client: Any, _name: str, properties: Properties) -> Made:
    arn = client.create_open_id_connect_provider(
        Url=properties["Url"],
        ClientIDList=properties.get("ClientIdList", []),
        ThumbprintList=properties.get("ThumbprintList", []),
    )["OpenIDConnectProviderArn"]
    return Made(arn, {"Arn": arn})


def create_subscription(client: Any, _name: str, properties: Properties) -> Made:
    arn = client.subscribe(**properties, ReturnSubscriptionArn=True)["SubscriptionArn"]
    return Made(arn, {"Arn": arn})


def put_alarm(client: Any, name: str, properties: Properties) -> Made:
    client.put_metric_alarm(**{**properties, "AlarmName": name})
    (alarm,) = client.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return Made(name, {"Arn": alarm["AlarmArn"]})


def put_bucket_policy(client: Any, _name: str, properties: Properties) -> Made:
    client.put_bucket_policy(Bucket=properties["Bucket"], Policy=_document(properties))
    return Made(properties["Bucket"])


def put_queue_policy(client: Any, name: str, properties: Properties) -> Made:
    for queue in properties["Queues"]:
        client.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": _document(properties)})
    return Made(name)


def put_topic_policy(client: Any, name: str, properties: Properties) -> Made:
    for topic in properties["Topics"]:
        client.set_topic_attributes(
            TopicArn=topic, AttributeName="Policy", AttributeValue=_document(properties)
        )
    return Made(name)


def _document(properties: Properties) -> str:
    document = properties["PolicyDocument"]
    return document if isinstance(document, str) else json.dumps(document)


def put_type(
    type: str,
    service: str,
    put: Create,
    delete: Callable[[Any, str], object] = lambda _client, _ref: None,
    name_property: str = "",
) -> ResourceType:
    """A type whose resources are put whole: an update creates the resource again. Without `delete`
    they go with the queue or topic that they belong to."""

    def update(client: Any, made: Made, properties: Properties) -> Made:
        return put(client, made.ref, properties)

    return ResourceType(type, service, put, delete, update, name_property)


def sagemaker_type(kind: str, snake: str, **more: Any) -> ResourceType:
    """A type whose `Ref` is its ARN; moto's own know no model package and no update."""
    name = f"{kind}Name"
    create = created_by(f"create_{snake}", f"{kind}Arn", name, ref_is_arn=True)
    delete = deleted_by(f"delete_{snake}", name)
    return ResourceType(
        f"AWS::SageMaker::{kind}", "sagemaker", create, delete, name_property=name, **more
    )


TYPES = (
    ResourceType(
        "AWS::SageMaker::Pipeline",
        "sagemaker",
        create_pipeline,
        lambda it, ref: it.delete_pipeline(PipelineName=ref, ClientRequestToken=uuid4().hex),
        update_pipeline,
        name_property="PipelineName",
    ),
    ResourceType(
        "AWS::SageMaker::ModelPackageGroup",
        "sagemaker",
        create_group,
        delete_group,
        update_group,
        name_property="ModelPackageGroupName",
    ),
    sagemaker_type("Model", "model"),
    sagemaker_type("EndpointConfig", "endpoint_config"),
    sagemaker_type("Endpoint", "endpoint", update=update_endpoint),
    ResourceType(
        "AWS::Scheduler::ScheduleGroup",
        "scheduler",
        created_by("create_schedule_group", "ScheduleGroupArn", "Name"),
        deleted_by("delete_schedule_group", "Name"),
        name_property="Name",
    ),
    ResourceType(
        "AWS::Scheduler::Schedule",
        "scheduler",
        created_by("create_schedule", "ScheduleArn", "Name"),
        delete_schedule,
        update_schedule,
        name_property="Name",
    ),
    ResourceType(
        "AWS::CodeBuild::Project",
        "codebuild",
        create_project,
        deleted_by("delete_project", "name"),
        name_property="Name",
    ),
    ResourceType(
        "AWS::IAM::OIDCProvider",
        "iam",
        create_oidc_provider,
        lambda it, ref: it.delete_open_id_connect_provider(OpenIDConnectProviderArn=ref),
    ),
    ResourceType(
        "AWS::SNS::Subscription",
        "sns",
        create_subscription,
        lambda it, ref: it.unsubscribe(SubscriptionArn=ref),
    ),
    put_type(
        "AWS::CloudWatch::Alarm",
        "cloudwatch",
        put_alarm,
        lambda it, ref: it.delete_alarms(AlarmNames=[ref]),
        name_property="AlarmName",
    ),
    put_type(
        "AWS::S3::BucketPolicy",
        "s3",
        put_bucket_policy,
        deleted_by("delete_bucket_policy", "Bucket"),
    ),
    put_type("AWS::SQS::QueuePolicy", "sqs", put_queue_policy),
    put_type("AWS::SNS::TopicPolicy", "sns", put_topic_policy),
)


class _Resource:
    """A resource as moto keeps it, with the methods of its own models; see `register_types`."""

    kind: ClassVar[ResourceType]

    def __init__(self, made: Made) -> None:
        self.made = made
        self.type = self.kind.type

    @property
    def physical_resource_id(self) -> str:
        return self.made.ref

    @classmethod
    def cloudformation_type(cls) -> str:
        return cls.kind.type

    @classmethod
    def cloudformation_name_type(cls) -> str:
        return cls.kind.name_property

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return True

    def get_cfn_attribute(self, name: str) -> str:
        if name not in self.made.attributes:
            raise UnformattedGetAttTemplateException
        return self.made.attributes[name]

    def is_created(self) -> bool:
        return True

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
        **_: Any,
    ) -> Self:
        with _refusing(resource_name):
            client, given = cls._client(region_name, account_id), _properties(cloudformation_json)
            return cls(cls.kind.create(client, resource_name, given))

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: Self,
        new_resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
    ) -> Self:
        with _refusing(new_resource_name):
            client, given = cls._client(region_name, account_id), _properties(cloudformation_json)
            return cls(cls.kind.change(client, original_resource.made, given))

    @classmethod
    def delete_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str
    ) -> None:
        try:
            cls.kind.delete(cls._client(region_name, account_id), resource_name)
        except ClientError as error:
            # moto deletes in no order: what hung off a deleted resource is gone with it.
            if not any(word in str(error) for word in _GONE):
                raise

    @classmethod
    def _client(cls, region: str, account: str) -> Any:
        """One that calls as the stack's account."""
        client = boto3.client(cls.kind.service, region_name=region)
        client.meta.events.register(
            "before-sign.*.*",
            lambda request, **_: request.headers.add_header("x-moto-account-id", account),
        )
        return client


def _properties(template: Mapping[str, Any]) -> Properties:
    return template.get("Properties") or {}


@contextmanager
def _refusing(resource: str) -> Iterator[None]:
    """CloudFormation refuses what the service or boto3 refuses."""
    try:
        yield
    except (BotoCoreError, ClientError, ValueError) as error:
        raise ValidationError(message=f"{resource}: {error}") from error


_REGISTERED: list[type] = []
"""moto finds types among CloudFormationModel's direct sub-classes, as long as something holds
them."""


def register_types(url: str) -> None:
    """Register every type with this process's moto; they call the server at `url`, this process."""
    os.environ.update(
        AWS_ENDPOINT_URL=url, AWS_ACCESS_KEY_ID="bridge", AWS_SECRET_ACCESS_KEY="bridge"
    )
    _REGISTERED.extend(
        type(each.type.rpartition(":")[2], (_Resource, CloudFormationModel), {"kind": each})
        for each in TYPES
    )
