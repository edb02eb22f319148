"""The values of expressions in one execution: how Get, Std:Join and Std:JsonGet are evaluated.

Pure but for property files, which JsonGet reads through the scope.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from compilegate.document.expressions import (
    FUNCTIONS,
    StepReference,
    is_expression,
    step_reference,
)
from compilegate.document.model import Scalar
from compilegate.document.paths import ExpressionError, lookup, parse_path
from compilegate.document.reading import refuse_constant


class Unresolved(str):
    """Stands for a value that is only known when the step runs; its text says which one."""

    __slots__ = ()


PropertyReader = Callable[[StepReference], Any]
ObjectReader = Callable[[str], bytes]


@dataclass(frozen=True)
class Scope:
    """Where the variables of one step get their values."""

    parameters: Mapping[str, Scalar]
    execution: Mapping[str, str]
    """Execution variables by name."""
    read_property: PropertyReader
    """A finished step's property; raises ExpressionError when there is none."""
    property_file_uri: PropertyReader
    """The s3:// URI of a step's property file; raises ExpressionError when there is none."""
    read_object: ObjectReader | None
    """The bytes of an object of the store; raises ObjectStoreError. None before the execution,
    when what a JsonGet reads has yet to be written."""


def resolve(value: Any, scope: Scope) -> Any:
    """`value` with every expression in it replaced by what it stands for.

    Raises ExpressionError that quotes the expression which has no value.
    """
    if is_expression(value):
        ((function, argument),) = value.items()
        return _evaluate(function, argument, scope)
    if isinstance(value, dict):
        return {key: resolve(item, scope) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, scope) for item in value]
    return value


def _evaluate(function: str, argument: Any, scope: Scope) -> Any:
    if function == "Get":
        return _get(argument, scope)
    if function == "Std:Join":
        return _join(argument, scope)
    if function == "Std:JsonGet":
        return _json_get(argument, scope)
    raise ExpressionError(f"function {function} is unknown, allowed are {', '.join(FUNCTIONS)}")


def _get(name: Any, scope: Scope) -> Any:
    if not isinstance(name, str):
        raise ExpressionError(f"Get needs a name, found {name!r:.80}")
    root, _, rest = name.partition(".")
    if root == "Parameters" and rest in scope.parameters:
        return scope.parameters[rest]
    if root == "Execution" and rest in scope.execution:
        return scope.execution[rest]
    if root == "Steps":
        return scope.read_property(step_reference(name))
    raise ExpressionError(f"Get {name!r} names nothing")


def _join(argument: Any, scope: Scope) -> str:
    if not isinstance(argument, dict) or not isinstance(argument.get("Values"), list):
        raise ExpressionError(f"Std:Join needs On and Values, found {argument!r:.80}")
    separator = argument.get("On", "")
    parts = [resolve(value, scope) for value in argument["Values"]]
    if any(isinstance(part, Unresolved) for part in parts):
        return Unresolved(separator.join(_text(part) for part in parts))
    return str(separator.join(_text(part) for part in parts))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ExpressionError(f"Std:Join takes strings, numbers and booleans, found {value!r:.80}")


def _json_get(argument: Any, scope: Scope) -> Any:
    if not isinstance(argument, dict) or not isinstance(argument.get("Path"), str):
        raise ExpressionError(f"Std:JsonGet needs a Path, found {argument!r:.80}")
    path = parse_path(argument["Path"])
    if "PropertyFile" in argument:
        uri = scope.property_file_uri(_property_file_reference(argument["PropertyFile"]))
    else:
        uri = resolve(argument.get("S3Uri"), scope)
    if scope.read_object is None:
        return Unresolved(f"{uri}: {argument['Path']}")
    if not isinstance(uri, str):
        raise ExpressionError(f"Std:JsonGet needs a PropertyFile or S3Uri, found {argument!r:.80}")
    document = _parse_json(uri, scope.read_object(uri))
    try:
        return lookup(document, path)
    except ExpressionError as error:
        raise ExpressionError(f"{uri}: {error}") from None


def _property_file_reference(argument: Any) -> StepReference:
    name = argument.get("Get") if isinstance(argument, dict) else argument
    if not isinstance(name, str):
        raise ExpressionError(f"PropertyFile needs a Get, found {argument!r:.80}")
    return step_reference(name)


def _parse_json(uri: str, content: bytes) -> Any:
    try:
        return json.loads(content, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ExpressionError(f"{uri} is not valid JSON: {error}") from error
