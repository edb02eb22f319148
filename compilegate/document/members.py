"""The JSON members of a definition's parts, by the fields of `model.py`: for reading and writing.

Faults are sentences that name the place, the member, what was found and what is expected. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from typing import Any, TypeVar

from compilegate.document.model import (
    PARAMETER_TYPES,
    TRIGGERS,
    CachePolicy,
    Dependency,
    OutputParameter,
    Parameter,
    PropertyFile,
    RetryPolicy,
    Step,
    format_duration,
    parse_duration,
)

Part = TypeVar("Part")


@dataclass(frozen=True)
class Kind:
    """What a member may hold."""

    expected: str
    types: tuple[type, ...]
    read: Callable[[Any], Any] = lambda value: value
    """Raises ValueError for what is of the type, and not accepted."""
    part: type | None = None
    """What it holds an object of, or an array of objects."""


def one_of(allowed: Collection[str]) -> Kind:
    """A text from a fixed list."""

    def read(value: str) -> str:
        if value not in allowed:
            raise ValueError
        return value

    return Kind(f"one of {', '.join(allowed)}", (str,), read)


def _not_negative(value: float) -> float:
    if value < 0:
        raise ValueError
    return value


def _array_of(part: type) -> Kind:
    return Kind("an array", (list,), part=part)


TEXT = Kind("a string", (str,))
LIST = Kind("an array", (list,), tuple)
NUMBER = Kind("a number of 0 or more", (int, float), _not_negative)

MEMBERS: Mapping[type, Mapping[str, tuple[str, Kind]]] = {
    Parameter: {
        "name": ("Name", TEXT),
        "type": ("Type", one_of(PARAMETER_TYPES)),
        "default": ("DefaultValue", Kind("a value", (str, int, float, bool))),
        "allowed": ("EnumValues", LIST),
    },
    Dependency: {"step": ("Step", TEXT), "trigger": ("Trigger", one_of(TRIGGERS))},
    CachePolicy: {
        "enabled": ("Enabled", Kind("true or false", (bool,))),
        "expire_after": (
            "ExpireAfter",
            Kind("an ISO 8601 duration such as P30D or PT12H", (str,), parse_duration),
        ),
    },
    RetryPolicy: {
        "backoff_rate": ("BackoffRate", NUMBER),
        "interval_seconds": ("IntervalSeconds", NUMBER),
        "max_attempts": ("MaxAttempts", NUMBER),
        "expire_after_minutes": ("ExpireAfterMin", NUMBER),
        "exception_types": ("ExceptionType", LIST),
    },
    PropertyFile: {
        "name": ("PropertyFileName", TEXT),
        "output_name": ("OutputName", TEXT),
        "file_path": ("FilePath", TEXT),
    },
    OutputParameter: {
        "name": ("OutputName", TEXT),
        "type": ("OutputType", one_of(PARAMETER_TYPES)),
    },
    Step: {
        "name": ("Name", TEXT),
        "type": ("Type", TEXT),
        "arguments": ("Arguments", Kind("an object", (dict,))),
        "depends_on": ("DependsOn", _array_of(Dependency)),
        "display_name": ("DisplayName", TEXT),
        "description": ("Description", TEXT),
        "retry_policies": ("RetryPolicies", _array_of(RetryPolicy)),
        "cache": ("CacheConfig", Kind("an object", (dict,), part=CachePolicy)),
        "property_files": ("PropertyFiles", _array_of(PropertyFile)),
        "function": ("FunctionArn", Kind("the ARN of a function", (str, dict))),
        "output_parameters": ("OutputParameters", _array_of(OutputParameter)),
    },
}
"""Members by field, in the order in which they are written."""


def unknown(owner: str, raw: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """A fault for each member that is not among those."""
    for member in raw:
        if member not in known:
            yield f"{owner}: unknown member {member}, expected one of {', '.join(known)}"


def read_part(part: type[Part], raw: Any, where: str, faults: list[str]) -> Part | None:
    """The part that an object stands for; None where it cannot be read."""
    if part is Dependency and isinstance(raw, str):
        raw = {"Step": raw}
    if not isinstance(raw, dict):
        faults.append(f"{where} is {raw!r:.60}, expected an object")
        return None
    faults += unknown(where, raw, [name for name, _ in MEMBERS[part].values()])
    values = read_members(part, raw, where, faults)
    return None if values is None else part(**values)


def read_members(
    part: type, raw: Mapping[str, Any], where: str, faults: list[str]
) -> dict[str, Any] | None:
    """The fields that a part's members give; None where one is missing that it needs."""
    required = {each.name for each in fields(part) if each.default is MISSING} & {*MEMBERS[part]}
    values: dict[str, Any] = {}
    for field, (name, kind) in MEMBERS[part].items():
        value = raw.get(name)
        if value is not None:
            try:
                values[field] = _read(kind, value, f"{where}: {name}", faults)
            except ValueError:
                faults.append(f"{where}: {name} is {value!r:.60}, expected {kind.expected}")
        elif field in required:
            faults.append(f"{where} needs {name}, {kind.expected}")
    return values if required <= values.keys() else None


def _read(kind: Kind, value: Any, where: str, faults: list[str]) -> Any:
    if type(value) not in kind.types:  # a bool is an int to isinstance
        raise ValueError
    if kind.part is None:
        return kind.read(value)
    if isinstance(value, dict):
        return read_part(kind.part, value, where, faults)
    found = [read_part(kind.part, it, f"{where}[{at}]", faults) for at, it in enumerate(value)]
    return tuple(each for each in found if each is not None)


def write_part(part: object) -> dict[str, Any]:
    """The object that a part is written as: no member for what is not set."""
    written = {}
    for field, (name, kind) in MEMBERS[type(part)].items():
        value = getattr(part, field)
        if value is not None and (value != () or kind.part is None):
            written[name] = _plain(value)
    return written


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Dependency) and value.trigger == Dependency.trigger:
        return value.step  # alone, where it waits for what steps usually wait for
    return write_part(value) if type(value) in MEMBERS else value
