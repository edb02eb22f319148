"""The types of step that a definition may have here, from `step_types.toml`.

To let the local runner run another type, add it there; the runner's tests then name every place
that has to know how.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

TRAINING = "Training"
PROCESSING = "Processing"
REGISTER_MODEL = "RegisterModel"
CONDITION = "Condition"
FAIL = "Fail"
LAMBDA = "Lambda"
MODEL = "Model"
TRANSFORM = "Transform"


@dataclass(frozen=True, kw_only=True)
class StepType:
    """What SageMaker Pipelines does with a type of step."""

    operation: str | None = None
    """The API call that takes the step's arguments; None where the service makes none."""
    description: str | None = None
    """The shape that describes what the call made: its members are the step's properties."""
    properties: tuple[str, ...] = ()
    """The properties that a local execution gives, besides the members of the request."""
    job_name: str | None = None
    """The member that names the job that the step runs; None where it runs none."""
    resources: tuple[str, ...] = ()
    """Path of the job's instances in the request."""
    cache_key: tuple[str, ...] = ()
    """The members of the request by which the step cache tells one run from another, as SageMaker
    documents them; empty where a result is never taken from the cache."""
    members: tuple[str, ...] = ()
    """What it may have in the JSON of a definition, besides COMMON_MEMBERS."""
    beside: tuple[str, ...] = ()
    """Members that the service alone reads."""
    by_command: bool = False
    """Whether it needs what only AWS has, so that here a command stands for it."""
    on_branch: bool = True
    """Whether it may stand on the branch of a condition."""

    @property
    def function(self) -> bool:
        return "FunctionArn" in self.members

    @property
    def outputs(self) -> bool:
        return "OutputParameters" in self.members


def _read(table: Mapping[str, Any]) -> StepType:
    facts: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    return StepType(**facts)


_TABLES = files("compilegate.document").joinpath("step_types.toml").read_text(encoding="utf-8")
STEP_TYPES = {name: _read(table) for name, table in tomllib.loads(_TABLES).items()}
COMMON_MEMBERS = ("Name", "Type", "Arguments", "DependsOn", "DisplayName", "Description")
"""What any step may have in the JSON of a definition."""
