"""The function's settings, from its environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass


class MissingVariableError(Exception):
    """The function's environment lacks a variable. The message names it."""


@dataclass(frozen=True)
class Serving:
    """How approved models are deployed."""

    deploy: str
    """`none`, `serverless`, `real-time` or `batch`."""
    name: str
    """The endpoint's; the names of models, configurations and transforms begin with it."""
    role_arn: str
    key_arn: str
    content_type: str
    memory_mb: int
    max_concurrency: int
    instance_type: str
    instance_count: int
    alarms: tuple[str, ...]
    """The names of the endpoint's alarms: one that goes off takes a new model back."""
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]
    isolation: bool
    batch_input: str
    """The URI below which the requests of a batch transform lie."""
    batch_output: str
    """Where its answers go, each transform into a folder of its own; ends in a slash."""
    workload: str

    @property
    def tags(self) -> list[dict[str, str]]:
        """So that the bill can be split by workload."""
        return [{"Key": "compilegate:workload", "Value": self.workload}]


@dataclass(frozen=True)
class Settings:
    """Whose approvals it acts on, and where it keeps what it did."""

    group: str
    bucket: str
    prefix: str
    """Where it keeps what it knows of approvals and deployments; ends in a slash."""
    topic_arn: str
    serving: Serving


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the environment. Raises MissingVariableError for what is missing or empty."""
    names = ("MODEL_PACKAGE_GROUP", "BUCKET", "PREFIX", "TOPIC_ARN")
    missing = [name for name in (*names, "SERVING") if not environment.get(name)]
    if missing:
        raise MissingVariableError(f"the environment lacks {', '.join(missing)}")
    serving = json.loads(environment["SERVING"])
    for name in ("alarms", "subnets", "security_groups"):
        serving[name] = tuple(serving[name])
    return Settings(
        *(environment[name] for name in names),
        serving=Serving(**serving),
    )
