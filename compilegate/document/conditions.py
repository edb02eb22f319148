"""The eight condition types of a Condition step. Pure.

A comparison between different kinds of values is an error, never a silent false: a gate whose
verdict has the wrong type must not look like a gate that said no.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compilegate.document.expressions import ExpressionError, Unresolved

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "Equals": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqualTo": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqualTo": operator.le,
}
_MEMBERS = {
    **dict.fromkeys(_COMPARISONS, ("LeftValue", "RightValue")),
    "In": ("QueryValue", "Values"),
    "Not": ("Condition",),
    "Or": ("Conditions",),
}


def evaluate_all(conditions: Sequence[Any]) -> bool:
    """Whether all conditions hold; their expressions are already resolved. Raises ExpressionError,
    whatever the order: every condition is compared even when an earlier one is false."""
    outcomes = [evaluate(condition) for condition in conditions]
    return all(outcomes)


def evaluate(condition: Any) -> bool:
    """Whether one resolved condition holds. Raises ExpressionError for what cannot be compared."""
    faults = list(condition_faults(condition))
    if faults:
        raise ExpressionError(faults[0])
    kind = condition["Type"]
    if kind == "Not":
        return not evaluate(condition["Condition"])
    if kind == "Or":
        outcomes = [evaluate(item) for item in condition["Conditions"]]
        return any(outcomes)
    if kind == "In":
        query = condition["QueryValue"]
        matches = [_compared("Equals", query, value) for value in condition["Values"]]
        return any(matches)
    return _compared(kind, condition["LeftValue"], condition["RightValue"])


def condition_faults(condition: Any) -> list[str]:
    """What is malformed in a condition, its expressions resolved or not; empty when nothing is."""
    kind = condition.get("Type") if isinstance(condition, Mapping) else None
    if kind not in tuple(_MEMBERS):  # a list or object is no key of a mapping
        return [f"condition type {kind!r} is unknown, expected one of {', '.join(_MEMBERS)}"]
    missing = [key for key in _MEMBERS[kind] if key not in condition]
    if missing:
        return [f"a condition of type {kind} needs {missing[0]}"]
    inner = condition[_MEMBERS[kind][-1]]
    if kind in {"Or", "In"} and (not isinstance(inner, list) or not inner):
        return [f"{_MEMBERS[kind][-1]} of a condition of type {kind} must be a non-empty list"]
    inside = {"Or": inner, "Not": [inner]}.get(kind, [])
    return [fault for item in inside for fault in condition_faults(item)]


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            raise ExpressionError(f"{value} cannot be compared")
        return "number"
    if isinstance(value, str) and not isinstance(value, Unresolved):
        return "string"
    raise ExpressionError(
        f"{value!r:.80} cannot be compared: it is not a string, number or boolean"
    )


def _compared(kind: str, left: Any, right: Any) -> bool:
    kinds = (_kind(left), _kind(right))
    if kinds[0] != kinds[1]:
        raise ExpressionError(
            f"the {kinds[0]} {left!r:.80} cannot be compared with the {kinds[1]} {right!r:.80}"
        )
    if kinds[0] == "boolean" and kind != "Equals":
        raise ExpressionError(f"{kind} does not order booleans ({left!r}, {right!r})")
    return _COMPARISONS[kind](left, right)
