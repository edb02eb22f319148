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
    format_duration,
    parse_duration,
)

Part = TypeVar("Part")


@dataclass(frozen=True)
class Kind:
    """What a member may hold."""

    expected: str
    accepts: Callable[[Any], bool]
    read: Callable[[Any], Any] = lambda value: value


def one_of(allowed: Collection[str]) -> Kind:
    """One of these texts."""
    return Kind(f"one of {', '.join(allowed)}", lambda value: value in tuple(allowed))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_duration(value: Any) -> bool:
    try:
        parse_duration(str(value))
    except ValueError:
        return False
    return True


TEXT = Kind("a string", lambda value: isinstance(value, str))
TEXTS = Kind("an array of strings", _are_texts, tuple)
TRUTH = Kind("true or false", lambda value: isinstance(value, bool))
LIST = Kind("an array", lambda value: isinstance(value, list), tuple)
SCALAR = Kind("a value", lambda value: isinstance(value, str | int | float | bool))
NUMBER = Kind("a number of 0 or more", _is_number)
WHOLE = Kind(
    "a whole number of 0 or more", lambda value: _is_number(value) and isinstance(value, int)
)
DURATION = Kind("an ISO 8601 duration such as P30D or PT12H", _is_duration, parse_duration)

MEMBERS: Mapping[type, Mapping[str, tuple[str, Kind]]] = {
    Parameter: {
        "name": ("Name", TEXT),
        "type": ("Type", one_of(PARAMETER_TYPES)),
        "default": ("DefaultValue", SCALAR),
        "allowed": ("EnumValues", LIST),
    },
    Dependency: {"step": ("Step", TEXT), "trigger": ("Trigger", one_of(TRIGGERS))},
    CachePolicy: {"enabled": ("Enabled", TRUTH), "expire_after": ("ExpireAfter", DURATION)},
    RetryPolicy: {
        "backoff_rate": ("BackoffRate", NUMBER),
        "interval_seconds": ("IntervalSeconds", NUMBER),
        "max_attempts": ("MaxAttempts", WHOLE),
        "expire_after_minutes": ("ExpireAfterMin", NUMBER),
        "exception_types": ("ExceptionType", TEXTS),
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
}
"""By field, in the order in which they are written."""


def unknown(owner: str, raw: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """A fault for each member that is not among those."""
    for member in raw:
        if member not in known:
            yield f"{owner}: unknown member {member}, expected one of {', '.join(known)}"


def json_kind(value: Any) -> str:
    """What JSON calls a value."""
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")


def read_part(part: type[Part], raw: Any, where: str, faults: list[str]) -> Part | None:
    """The part that an object stands for; None where it cannot be told."""
    if not isinstance(raw, dict):
        faults.append(f"{where} is a JSON {json_kind(raw)}, expected an object")
        return None
    members = MEMBERS[part]
    faults += unknown(where, raw, [name for name, _ in members.values()])
    required = {each.name for each in fields(part) if each.default is MISSING}  # type: ignore[arg-type]  # pyrefly: ignore[bad-argument-type]
    values: dict[str, Any] = {}
    for field, (name, kind) in members.items():
        value = raw.get(name)
        if value is not None and kind.accepts(value):
            values[field] = kind.read(value)
        elif value is not None:
            faults.append(f"{where}: {name} is {value!r:.60}, expected {kind.expected}")
        elif field in required:
            faults.append(f"{where} needs {name}, {kind.expected}")
    return part(**values) if required <= values.keys() else None


def write_part(part: object) -> dict[str, Any]:
    """The object that a part is written as: no member for what is not set."""
    values = {name: getattr(part, field) for field, (name, _) in MEMBERS[type(part)].items()}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(value)
    return list(value) if isinstance(value, tuple) else value
