"""Where models are registered: on this machine, or in the account."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from compilegate.account.registry import RegisteredModel, Registry
from compilegate.cli.options.account import open_account, settings_option
from compilegate.cli.options.home import home_option
from compilegate.local import (
    ObjectStore,
    describe_package,
    list_groups,
    list_packages,
    set_approval,
)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Model:
    """One registered model, wherever it is."""

    group: str
    version: int
    description: Mapping[str, Any]
    """The DescribeModelPackage response."""
    execution: str

    @property
    def name(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def approval(self) -> str:
        return str(self.description["ModelApprovalStatus"])

    @property
    def metadata(self) -> Mapping[str, Any]:
        said: Mapping[str, Any] = self.description.get("CustomerMetadataProperties") or {}
        return said

    @property
    def uris(self) -> list[str]:
        """Its archive, and its verdict."""
        containers = self.description.get("InferenceSpecification", {}).get("Containers", [])
        archives = [each["ModelDataUrl"] for each in containers if "ModelDataUrl" in each]
        return [*archives, *([self.metadata["verdict"]] if "verdict" in self.metadata else [])]


class Place(Protocol):
    """What the commands ask."""

    @property
    def called(self) -> str: ...

    def groups(self) -> list[str]: ...

    def models(self, group: str) -> list[Model]: ...

    def describe(self, reference: str) -> Model: ...

    def decide(self, reference: str, status: str, reason: str | None) -> Model: ...

    def read(self, uri: str) -> bytes | None: ...

    def file(self, uri: str) -> str: ...


@dataclass(frozen=True)
class Here:
    """The registry of this machine."""

    home: Path

    @property
    def called(self) -> str:
        return str(self.home)

    def groups(self) -> list[str]:
        return list_groups(self.home)

    def models(self, group: str) -> list[Model]:
        return [
            Model(each.group, each.version, each.description, each.execution_id)
            for each in list_packages(self.home, group)
        ]

    def describe(self, reference: str) -> Model:
        found = describe_package(self.home, reference)
        return Model(found.group, found.version, found.description, found.execution_id)

    def decide(self, reference: str, status: str, reason: str | None) -> Model:
        set_approval(self.home, reference, status, reason)
        return self.describe(reference)

    def read(self, uri: str) -> bytes | None:
        path = ObjectStore(self.home / "s3").path(uri)
        return path.read_bytes() if path.is_file() else None

    def file(self, uri: str) -> str:
        return str(ObjectStore(self.home / "s3").path(uri))


@dataclass(frozen=True)
class Deployed:
    """The registry of the account."""

    settings: Path

    @cached_property
    def _registry(self) -> Registry:
        account = open_account(self.settings)
        return Registry(account.session, account.names.settings.project)

    @property
    def called(self) -> str:
        session = self._registry.session
        return f"account {session.account}, {session.region}"

    def groups(self) -> list[str]:
        return self._registry.groups()

    def models(self, group: str) -> list[Model]:
        return [_of_account(each) for each in self._registry.models(group)]

    def describe(self, reference: str) -> Model:
        return _of_account(self._registry.describe(reference))

    def decide(self, reference: str, status: str, reason: str | None) -> Model:
        return _of_account(self._registry.decide(reference, status, reason))

    def read(self, uri: str) -> bytes | None:
        return self._registry.object_at(uri)

    def file(self, uri: str) -> str:
        return uri


def _of_account(model: RegisteredModel) -> Model:
    execution = str(model.metadata.get("execution", ""))
    return Model(model.group, model.version, model.description, execution)


def place_options(command: Command) -> Command:
    """Add `--deployed`, `--settings` and `--home` to a command."""
    deployed = click.option(
        "--deployed", is_flag=True, help="The models in the account, not those in HOME."
    )
    return deployed(settings_option(home_option(command)))


def place_of(*, deployed: bool, settings: Path, home: Path) -> Place:
    return Deployed(settings) if deployed else Here(home)
