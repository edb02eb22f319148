"""A pipeline definition as types: parameters, steps, and what SageMaker does around a step.

One model for all: `compilegate.pipelines` builds it, `writing.py` makes the JSON of it and
`reading.py` reads that back, and the local runner and a plan go by it. Values that are only known
in an execution stand in the arguments of a step as the JSON of an expression (`expressions.py`).
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

VERSION = "2020-12-01"

Scalar = str | int | float | bool

PARAMETER_TYPES: Mapping[str, tuple[type, ...]] = {
    "String": (str,),
    "Integer": (int,),
    "Float": (float, int),
    "Boolean": (bool,),
}
TRIGGERS = ("Completed", "Failed", "Stopped", "Any")


@dataclass(frozen=True)
class Parameter:
    """A declared pipeline parameter; without a default it must be given."""

    name: str
    type: str
    default: Scalar | None = None
    allowed: tuple[Scalar, ...] | None = None


@dataclass(frozen=True)
class Dependency:
    """The step waits until `step` has ended as `trigger` says (Completed unless declared)."""

    step: str
    trigger: str = "Completed"


@dataclass(frozen=True)
class Branch:
    """The side of a Condition step that a step lies on."""

    condition: str
    taken_when: bool


@dataclass(frozen=True)
class CachePolicy:
    """An earlier result may stand in for the step when it is no older than `expire_after`."""

    expire_after: timedelta | None


@dataclass(frozen=True)
class RetryPolicy:
    """Which failures of a step are tried again, how often and how soon."""

    exception_types: tuple[str, ...]
    interval_seconds: float = 1
    backoff_rate: float = 2.0
    max_attempts: int | None = None
    expire_after_minutes: float | None = None


@dataclass(frozen=True)
class PropertyFile:
    """A JSON file among a Processing step's outputs that Std:JsonGet may read."""

    name: str
    output_name: str
    file_path: str


@dataclass(frozen=True)
class OutputParameter:
    """What a function or a callback returns under a name, which later steps may read."""

    name: str
    type: str


@dataclass(frozen=True)
class Step:
    """One step. A Condition step's own branches are not in `arguments`: they are steps too."""

    name: str
    type: str
    arguments: Mapping[str, Any]
    depends_on: tuple[Dependency, ...] = ()
    branch: Branch | None = None
    cache: CachePolicy | None = None
    retry_policies: tuple[RetryPolicy, ...] = ()
    property_files: tuple[PropertyFile, ...] = ()
    function: Any = None
    """The ARN of a Lambda step's function, or an expression for it."""
    members: Mapping[str, Any] = field(default_factory=dict)
    """What a check or a callback says beside its arguments."""
    output_parameters: tuple[OutputParameter, ...] = ()
    display_name: str | None = None
    description: str | None = None


@dataclass(frozen=True)
class Definition:
    """All steps in definition order, nested ones right after their Condition step."""

    parameters: tuple[Parameter, ...]
    steps: tuple[Step, ...]
    max_parallel_steps: int | None = None


def matches(value: Any, parameter_type: str) -> bool:
    """Whether a JSON value is of a parameter type; a Float may be written as a whole number."""
    if isinstance(value, bool):
        return parameter_type == "Boolean"
    return isinstance(value, PARAMETER_TYPES[parameter_type])
