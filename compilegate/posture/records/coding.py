"""Events, plans and states as JSON and back. What is missing or of another type is an error."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from compilegate.posture.errors import DamagedRecordError
from compilegate.posture.machine import events

KINDS: Mapping[str, type[Any]] = {
    "started": events.Started,
    "settled": events.Settled,
    "set": events.SetByPerson,
    "reset": events.Reset,
    "lost": events.Lost,
}

_Type = TypeVar("_Type")


def encoded(value: Any) -> Any:
    """Frozen dataclasses as objects, tuples as arrays."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: encoded(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not (_is_later(field) and getattr(value, field.name) is None)
        }
    if isinstance(value, Mapping):
        return {str(key): encoded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(item) for item in value]
    return value.value if isinstance(value, enum.Enum) else value


def decoded(kind: type[_Type], document: Any) -> _Type:
    """A dataclass from its JSON. Raises DamagedRecordError with the place and what was found."""
    found: _Type = _decoded(kind, document, kind.__name__)
    return found


def event_document(event: events.Event) -> dict[str, Any]:
    """An event, with what it is."""
    kind = next(name for name, known in KINDS.items() if isinstance(event, known))
    return {"kind": kind, **encoded(event)}


def read_event(document: Any) -> events.Event:
    """An event from its JSON."""
    if not isinstance(document, dict) or document.get("kind") not in KINDS:
        raise DamagedRecordError(f"{document!r:.60} is no event, allowed: {', '.join(KINDS)}")
    rest = {name: value for name, value in document.items() if name != "kind"}
    found: events.Event = decoded(KINDS[document["kind"]], rest)
    return found


def _decoded(kind: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _dataclass(typing.cast("type[Any]", kind), value, where)
    if typing.get_origin(kind) is not None:
        return _generic(kind, value, where)
    if issubclass(kind, enum.Enum):
        _expect(value in {member.value for member in kind}, value, where, f"a {kind.__name__}")
        return kind(value)
    allowed = (int, float) if kind is float else (kind,)
    fits = isinstance(value, allowed) and (kind is bool or not isinstance(value, bool))
    _expect(fits, value, where, f"of type {kind.__name__}")
    return float(value) if kind is float else value


def _generic(kind: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return _expect(value in inner, value, where, f"one of {', '.join(map(str, inner))}")
    if origin is tuple:
        _expect(isinstance(value, list), value, where, "an array")
        return tuple(_decoded(inner[0], item, f"{where}[{n}]") for n, item in enumerate(value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        _expect(isinstance(value, dict), value, where, "an object")
        return {key: _decoded(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    if value is None:  # an optional member is all that is left
        return None
    return _decoded(next(one for one in inner if one is not type(None)), value, where)


def _dataclass(kind: type[Any], value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), value, where, "an object")
    hints = typing.get_type_hints(kind)
    names = {field.name for field in dataclasses.fields(kind)}
    needed = {field.name for field in dataclasses.fields(kind) if not _is_later(field)}
    if not needed <= set(value) <= names:
        odd = ", ".join(sorted((needed - set(value)) | (set(value) - names)))
        raise DamagedRecordError(f"{where} has too much or too little: {odd}")
    return kind(**{name: _decoded(hints[name], value[name], f"{where}.{name}") for name in value})


def _is_later(field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata.get("later"))


def _expect(fits: bool, value: Any, where: str, allowed: str) -> Any:
    if not fits:
        raise DamagedRecordError(f"{where} is {value!r:.60}, expected {allowed}")
    return value
