"""The keeper's settings, from its environment. A missing variable is a KeyError with its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compilegate.posture.contract import TABLE_VARIABLE


@dataclass(frozen=True)
class Limits:
    """What the workload declares; None where it declares nothing."""

    month_usd: float | None = None
    most_usd: float = 0.0
    """What one execution can cost at most."""
    rates: Mapping[str, list[str]] | None = None
    """US dollars an hour, and the steps that cost so much."""
    hours: float | None = None
    """Longest time of an execution before a message is sent."""
    gap_hours: float | None = None
    """The longest time between two starts of the schedule, with what a late one may take."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a batch transform needs."""

    name: str
    """What the names of models and transforms begin with, before two hyphens."""
    content_type: str
    instance_type: str
    instance_count: int
    input: str
    """The URI below which the requests lie."""
    output: str
    """Prefix of the answers, a folder for each transform; ends in a slash."""
    key_arn: str
    volume_key_arn: str
    """Empty for instances with local disks, for which SageMaker refuses a key."""
    role_arn: str
    subnets: list[str]
    security_groups: list[str]
    isolation: bool


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Whom the keeper serves, and where things are."""

    workload: str
    pipeline_arn: str
    group: str
    """The name of its model package group."""
    bucket: str
    topic_arn: str
    posture_table: str
    """Empty for a workload without a posture."""
    limits: Limits
    new_data_prefix: str
    """What the keys of all deliveries begin with; empty where no data is delivered."""
    endpoint_stack: str
    """The name of the endpoint's stack; empty without one."""
    endpoint_alarms: list[str]
    """The ARNs of the alarms that take a new version back."""
    batch: Batch | None
    tags: list[dict[str, str]]


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the environment."""

    def document(name: str, otherwise: Any) -> Any:
        text = environment.get(name)
        return json.loads(text) if text else otherwise

    batch = document("BATCH", None)
    return Settings(
        workload=environment["WORKLOAD"],
        pipeline_arn=environment["PIPELINE_ARN"],
        group=environment["MODEL_PACKAGE_GROUP"],
        bucket=environment["BUCKET"],
        topic_arn=environment["TOPIC_ARN"],
        posture_table=environment.get(TABLE_VARIABLE, ""),
        limits=Limits(**document("LIMITS", {})),
        new_data_prefix=environment.get("NEW_DATA_PREFIX", ""),
        endpoint_stack=environment.get("ENDPOINT_STACK", ""),
        endpoint_alarms=document("ENDPOINT_ALARMS", []),
        batch=None if batch is None else Batch(**batch),
        tags=document("TAGS", []),
    )
