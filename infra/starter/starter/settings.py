"""The function's settings, from its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class MissingVariableError(Exception):
    """The function's environment lacks a variable. The message names it."""


@dataclass(frozen=True)
class Settings:
    """Which pipeline it starts, for deliveries below which prefix, and where it keeps its queue."""

    pipeline_name: str
    bucket: str
    prefix: str
    """What the keys of all deliveries begin with."""
    queue_prefix: str
    """Where it keeps what it knows of deliveries; ends in a slash."""
    notices_prefix: str
    """Where the notifier records what it said; ends in a slash."""
    topic_arn: str


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the environment. Raises MissingVariableError for what is missing or empty."""
    names = ("PIPELINE_NAME", "BUCKET", "PREFIX", "QUEUE_PREFIX", "NOTICES_PREFIX", "TOPIC_ARN")
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise MissingVariableError(f"the environment lacks {', '.join(missing)}")
    return Settings(*(environment[name] for name in names))
