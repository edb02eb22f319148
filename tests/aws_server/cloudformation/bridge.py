"""One resource type of CloudFormation, as calls of boto3; and how moto is told of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from moto.cloudformation.exceptions import UnformattedGetAttTemplateException, ValidationError
from moto.core.common_models import CloudFormationModel

Properties = Mapping[str, Any]
"""Of a resource in a template, with all references resolved."""
_GONE = ("NoSuch", "NotFound", "does not exist")


@dataclass(frozen=True)
class Made:
    """A resource that exists: what `Ref` and `Fn::GetAtt` answer."""

    ref: str
    attributes: Mapping[str, str] = field(default_factory=dict)


class Bridge(ABC):
    """One resource type. Sub-classes of this module's package are registered by being defined."""

    type: ClassVar[str]
    """As in templates: `AWS::SageMaker::Pipeline`."""
    service: ClassVar[str]
    """boto3's name of the service that makes it."""
    name_property: ClassVar[str] = ""
    """The property that holds its name; empty where it has none."""

    @classmethod
    @abstractmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        """Make it. `name` is the declared one, or CloudFormation's own."""

    @classmethod
    @abstractmethod
    def update(cls, client: Any, made: Made, properties: Properties) -> Made:
        """Change it in place, or replace it; returns what there is then."""

    @classmethod
    @abstractmethod
    def delete(cls, client: Any, ref: str) -> None:
        """Remove it."""


class PutBridge(Bridge):
    """A resource that is put whole: to change it is to make it again."""

    @classmethod
    def update(cls, client: Any, made: Made, properties: Properties) -> Made:
        return cls.create(client, made.ref, properties)


class ReplacedBridge(Bridge):
    """A resource that is replaced when anything of it changes."""

    @classmethod
    def update(cls, client: Any, made: Made, properties: Properties) -> Made:
        cls.delete(client, made.ref)
        name = properties.get(cls.name_property, made.ref)
        return cls.create(client, name, properties)


class _Resource:
    """What moto keeps of a resource, with the methods of its own models; see `register_all`."""

    bridge: ClassVar[type[Bridge]]

    def __init__(self, made: Made) -> None:
        self.made = made
        self.type = self.bridge.type

    @property
    def physical_resource_id(self) -> str:
        return self.made.ref

    @classmethod
    def cloudformation_type(cls) -> str:
        return cls.bridge.type

    @classmethod
    def cloudformation_name_type(cls) -> str:
        return cls.bridge.name_property

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
        cloudformation_json: Mapping[str, Any],
        account_id: str,
        region_name: str,
        **_: Any,
    ) -> Self:
        properties = cloudformation_json.get("Properties") or {}
        with _refusing(resource_name):
            return cls(
                cls.bridge.create(cls._client(region_name, account_id), resource_name, properties)
            )

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: Self,
        new_resource_name: str,
        cloudformation_json: Mapping[str, Any],
        account_id: str,
        region_name: str,
    ) -> Self:
        properties = cloudformation_json.get("Properties") or {}
        made = original_resource.made
        with _refusing(new_resource_name):
            return cls(cls.bridge.update(cls._client(region_name, account_id), made, properties))

    @classmethod
    def delete_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: Mapping[str, Any],
        account_id: str,
        region_name: str,
    ) -> None:
        try:
            cls.bridge.delete(cls._client(region_name, account_id), resource_name)
        except ClientError as error:
            # moto deletes in no order: what hung off a deleted resource is gone with it.
            if not any(word in str(error) for word in _GONE):
                raise

    @classmethod
    def _client(cls, region: str, account: str) -> Any:
        """One that asks as the stack's account."""
        client = boto3.client(cls.bridge.service, region_name=region)
        client.meta.events.register(
            "before-sign.*.*",
            lambda request, **_: request.headers.add_header("x-moto-account-id", account),
        )
        return client


@contextmanager
def _refusing(resource: str) -> Iterator[None]:
    """What the service or boto3 refuses, CloudFormation refuses."""
    try:
        yield
    except (BotoCoreError, ClientError, ValueError) as error:
        raise ValidationError(message=f"{resource}: {error}") from error


_RESOURCES: list[type] = []


def register_all() -> None:
    """Tell moto of every bridge that is defined.

    It finds types among CloudFormationModel's direct sub-classes, as long as something holds them.
    """
    _RESOURCES.extend(
        type(bridge.__name__, (_Resource, CloudFormationModel), {"bridge": bridge})
        for bridge in _concrete(Bridge)
    )


def _concrete(bridge: type[Bridge]) -> list[type[Bridge]]:
    below = [item for sub in bridge.__subclasses__() for item in _concrete(sub)]
    return below or [bridge]
