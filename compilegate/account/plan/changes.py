"""Two definitions compared by step and field, not as text. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from compilegate.document.expressions import is_expression

_IDENTITIES = (
    "InputName",
    "OutputName",
    "ChannelName",
    "PropertyFileName",
    "ExceptionType",
    "Name",
    "Key",
)
"""Members by which an element of a list is known; the order of such lists says nothing."""


@dataclass(frozen=True)
class FieldChange:
    """One value that differs. A side that does not have it is None."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class StepChange:
    """Steps that change alike."""

    steps: tuple[str, ...]
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True)
class DefinitionChanges:
    """What a deployment would change in a pipeline."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[StepChange, ...]
    parameters: tuple[FieldChange, ...]
    other: tuple[FieldChange, ...]
    """Changes of the definition as a whole, such as its version."""

    @property
    def none(self) -> bool:
        """Whether the definitions say the same."""
        return not (self.added or self.removed or self.changed or self.parameters or self.other)


def compare_definitions(before: str, after: str) -> DefinitionChanges:
    """Both are JSON of a pipeline definition."""
    old, new = json.loads(before), json.loads(after)
    old_steps, new_steps = (dict(_flat_steps(each.get("Steps", []))) for each in (old, new))
    alike: dict[tuple[FieldChange, ...], list[str]] = {}
    for name, step in new_steps.items():
        if name in old_steps:
            fields = tuple(compare_values(old_steps[name], step))
            if fields:
                alike.setdefault(fields, []).append(name)
    return DefinitionChanges(
        added=tuple(name for name in new_steps if name not in old_steps),
        removed=tuple(name for name in old_steps if name not in new_steps),
        changed=tuple(StepChange(tuple(steps), fields) for fields, steps in alike.items()),
        parameters=tuple(compare_values(old.get("Parameters", []), new.get("Parameters", []))),
        other=tuple(compare_values(_rest(old), _rest(new))),
    )


def compare_values(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    """Every place in which two JSON values differ, in the order of the first, then the second."""
    if before == after:
        return
    if _is_object(before) and _is_object(after):
        for key in [*before, *(key for key in after if key not in before)]:
            where = f"{path}.{key}" if path else key
            if key not in after:
                yield FieldChange(where, _text(before[key]), None)
            elif key not in before:
                yield FieldChange(where, None, _text(after[key]))
            else:
                yield from compare_values(before[key], after[key], where)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _compare_lists(before, after, path)
    else:
        yield FieldChange(path, _text(before), _text(after))


def _compare_lists(before: list[Any], after: list[Any], path: str) -> Iterator[FieldChange]:
    identity = _identity_of(before, after)
    if identity is not None:
        yield from compare_values(
            {f"[{item[identity]}]": item for item in before},
            {f"[{item[identity]}]": item for item in after},
            path,
        )
        return
    texts = [[_text(item) for item in side] for side in (before, after)]
    for tag, i1, i2, j1, j2 in SequenceMatcher(
        a=texts[0], b=texts[1], autojunk=False
    ).get_opcodes():
        if tag != "equal":
            yield FieldChange(path, _joined(texts[0][i1:i2]), _joined(texts[1][j1:j2]))


def _identity_of(before: Sequence[Any], after: Sequence[Any]) -> str | None:
    """The member that tells all elements of each list apart, if there is one."""
    items = [*before, *after]
    if not items or not all(_is_object(item) for item in items):
        return None
    for key in _IDENTITIES:
        names = [[item.get(key) for item in side] for side in (before, after)]
        if all(isinstance(name, str) for side in names for name in side) and all(
            len(set(side)) == len(side) for side in names
        ):
            return key
    return None


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not is_expression(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _joined(texts: Sequence[str]) -> str | None:
    return " ".join(texts) if texts else None


def _flat_steps(steps: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Steps by name, those on a condition's branches too; a branch then is a list of names."""
    for step in steps:
        flat = {key: value for key, value in step.items() if key not in {"Name", "Arguments"}}
        arguments: Mapping[str, Any] = step.get("Arguments", {})
        for key, value in arguments.items():
            if key in {"IfSteps", "ElseSteps"}:
                flat[key] = [nested["Name"] for nested in value]
                yield from _flat_steps(value)
            else:
                flat[key] = value
        yield step["Name"], flat


def _rest(definition: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in definition.items() if key not in {"Steps", "Parameters"}}
