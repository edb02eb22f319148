"""The keeper's settings, from its environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from compilegate.access.layout import deliveries_prefix, notices_prefix, verdicts_prefix
from compilegate.posture.contract import TABLE_VARIABLE

REQUIRED = ("WORKLOAD", "PIPELINE_ARN", "MODEL_PACKAGE_GROUP", "BUCKET", "TOPIC_ARN")


class MissingVariableError(Exception):
    """The function's environment lacks a variable. The message names it."""


@dataclass(frozen=True)
class Limits:
    """What the workload declares; None where it declares nothing."""

    month_usd: float | None = None
    most_usd: float = 0.0
    """What one execution can cost at most."""
    rates: tuple[tuple[float, tuple[str, ...]], ...] = ()
    """US dollars an hour, and the steps that cost so much."""
    hours: float | None = None
    """How long an execution may run before people are told."""
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
    """Where the answers go, each transform into a folder of its own; ends in a slash."""
    key_arn: str
    volume_key_arn: str
    """Empty for instances with local disks, for which SageMaker refuses a key."""
    role_arn: str
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]
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
    new_data_prefix: str
    """What the keys of all deliveries begin with; empty where no data is delivered."""
    endpoint_stack: str
    """The name of the endpoint's stack; empty without one."""
    endpoint_alarms: tuple[str, ...]
    """The ARNs of the alarms that take a new model back."""
    limits: Limits
    batch: Batch | None
    tags: tuple[tuple[str, str], ...]

    @property
    def notices_prefix(self) -> str:
        return notices_prefix(self.workload)

    @property
    def verdicts_prefix(self) -> str:
        return verdicts_prefix(self.workload)

    @property
    def deliveries_prefix(self) -> str:
        return deliveries_prefix(self.workload)


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the environment. Raises MissingVariableError for what is missing or empty."""
    missing = [name for name in REQUIRED if not environment.get(name)]
    if missing:
        raise MissingVariableError(f"the environment lacks {', '.join(missing)}")
    workload, pipeline_arn, group, bucket, topic_arn = (environment[name] for name in REQUIRED)
    return Settings(
        workload=workload,
        pipeline_arn=pipeline_arn,
        group=group,
        bucket=bucket,
        topic_arn=topic_arn,
        posture_table=environment.get(TABLE_VARIABLE, ""),
        new_data_prefix=environment.get("NEW_DATA_PREFIX", ""),
        endpoint_stack=environment.get("ENDPOINT_STACK", ""),
        endpoint_alarms=tuple(json.loads(environment.get("ENDPOINT_ALARMS") or "[]")),
        limits=_limits(environment.get("LIMITS") or "{}"),
        batch=_batch(environment.get("BATCH") or "null"),
        tags=tuple(
            (tag["Key"], tag["Value"]) for tag in json.loads(environment.get("TAGS") or "[]")
        ),
    )


def _limits(text: str) -> Limits:
    found = json.loads(text)
    rates = tuple((float(rate), tuple(steps)) for rate, steps in found.pop("rates", {}).items())
    return Limits(rates=rates, **found)


def _batch(text: str) -> Batch | None:
    found = json.loads(text)
    if found is None:
        return None
    return Batch(**{key: tuple(it) if isinstance(it, list) else it for key, it in found.items()})
