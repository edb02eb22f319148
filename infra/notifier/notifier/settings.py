"""The function's settings, from its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from notifier.limits import Limits, read_limits


class MissingVariableError(Exception):
    """The function's environment lacks a variable. The message names it."""


@dataclass(frozen=True)
class Settings:
    """Which topic it notifies, about which pipeline."""

    topic_arn: str
    pipeline_arn: str
    bucket: str
    workload: str
    prefix: str = "compilegate"
    """What every key in the bucket begins with."""
    limits: Limits = field(default_factory=Limits)

    @property
    def notices_prefix(self) -> str:
        """Where it records what it sent, so that nothing is sent twice."""
        return f"{self.prefix}/workloads/{self.workload}/notices"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the environment. Raises MissingVariableError for what is missing or empty."""
    required = ("TOPIC_ARN", "PIPELINE_ARN", "BUCKET", "WORKLOAD")
    missing = [name for name in required if not environment.get(name)]
    if missing:
        raise MissingVariableError(f"the environment lacks {', '.join(missing)}")
    return Settings(
        topic_arn=environment["TOPIC_ARN"],
        pipeline_arn=environment["PIPELINE_ARN"],
        bucket=environment["BUCKET"],
        workload=environment["WORKLOAD"],
        prefix=environment.get("PREFIX") or "compilegate",
        limits=read_limits(environment.get("LIMITS", "")),
    )
