"""The function's settings, from its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class MissingVariableError(Exception):
    """The function's environment lacks a variable. The message names it."""


@dataclass(frozen=True)
class Settings:
    """Which builds there are, which rule asks again, and who is told."""

    build_projects: tuple[str, ...]
    """The CodeBuild projects, one for each image."""
    waiting_rule: str
    """The rule that calls the function every few minutes while something waits."""
    topic_arn: str


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the environment. Raises MissingVariableError for what is missing."""
    names = ("BUILD_PROJECTS", "WAITING_RULE", "TOPIC_ARN")
    missing = [name for name in names if name not in environment]
    if missing:
        raise MissingVariableError(f"the environment lacks {', '.join(missing)}")
    projects, rule, topic = (environment[name] for name in names)
    return Settings(tuple(projects.split()), rule, topic)
