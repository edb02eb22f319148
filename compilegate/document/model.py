"""A pipeline definition as types: parameters, steps, and what SageMaker does around a step.

One model for all: `compilegate.pipelines` builds it, `writing.py` makes the JSON of it and
`reading.py` reads that back, and the local runner and a plan go by it. Values that are only known
in an execution stand in the arguments of a step as the JSON of an expression (`expressions.py`).
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

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


BRANCHES = {"IfSteps": True, "ElseSteps": False}
"""The members that hold the steps of a Condition step's branches."""


@dataclass(frozen=True)
class CachePolicy:
    """An earlier result may stand in for the step when it is no older than `expire_after`."""

    expire_after: timedelta | None = None
    enabled: bool = True


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
    return type(value) in PARAMETER_TYPES[parameter_type]


def parameter_values(
    declared: Sequence[Parameter], given: Mapping[str, Scalar]
) -> tuple[dict[str, Scalar], list[str]]:
    """Every declared parameter's value, and one sentence for each that has none or a wrong one.
    Text for a number or boolean is read as one, as a command line gives it."""
    values: dict[str, Scalar] = {}
    faults: list[str] = []
    by_name = {parameter.name: parameter for parameter in declared}
    for name in given:
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            faults.append(f"parameter {name} is not declared, expected {known}")
    for name, parameter in by_name.items():
        value = given.get(name, parameter.default)
        if value is None:
            faults.append(f"parameter {name} ({parameter.type}) has no default and was not given")
            continue
        converted = _converted(value, parameter.type)
        if converted is None:
            faults.append(f"parameter {name} is {value!r}, expected a value of {parameter.type}")
        elif parameter.allowed is not None and converted not in parameter.allowed:
            allowed = ", ".join(map(str, parameter.allowed))
            faults.append(f"parameter {name} is {converted!r}, expected one of {allowed}")
        else:
            values[name] = converted
    return values, faults


def _converted(value: Scalar, parameter_type: str) -> Scalar | None:
    if not isinstance(value, str) or parameter_type == "String":
        return value if matches(value, parameter_type) else None
    if parameter_type == "Boolean":
        return {"true": True, "false": False}.get(value.lower())
    try:
        return int(value) if parameter_type == "Integer" else float(value)
    except ValueError:
        return None


# As CacheConfig takes them: "P30D", "30d", "T16m", "30dT5h". A duration has no calendar to count
# on, so a year and a month have fixed lengths.
_DAYS = {"Y": 365, "M": 30, "W": 7, "D": 1}
_SECONDS = {"H": 3600, "M": 60, "S": 1}
_DURATION = re.compile(r"P?((?:\d+[YMWD])*)(T(?:\d+[HMS])+)?", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """The length of an ISO 8601 duration; the leading P may be left out, case does not matter.
    Raises ValueError."""
    match = _DURATION.fullmatch(text.upper())
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is not an ISO 8601 duration such as P30D or PT12H")
    days, time = (re.findall(r"(\d+)([A-Z])", part or "") for part in match.groups())
    try:
        return timedelta(
            days=sum(int(count) * _DAYS[unit] for count, unit in days),
            seconds=sum(int(count) * _SECONDS[unit] for count, unit in time),
        )
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than a duration can be") from error


def format_duration(length: timedelta) -> str:
    """The shortest text that `parse_duration` reads as this length, in days down to seconds."""
    hours, rest = divmod(length.seconds, 3600)
    days = f"{length.days}D" if length.days else ""
    parts = zip((hours, *divmod(rest, 60)), "HMS", strict=True)
    time = "".join(f"{count}{unit}" for count, unit in parts if count)
    return f"P{days}T{time}" if time else f"P{days or '0D'}"


def refuse_constant(constant: str) -> NoReturn:
    """A hook for `json.loads`, which would read NaN: a comparison with NaN is silently false."""
    raise ValueError(f"{constant} is not a JSON number")
