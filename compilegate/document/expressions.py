"""The variables and functions of a definition: Get, Std:Join, Std:JsonGet, and their values.

A path such as `ProcessingOutputConfig.Outputs['gate'].S3Output.S3Uri` leads into a JSON document.
One of a property (Get) may pick a list's member by its name, one of a JsonGet may not. Pure but for
property files, which JsonGet reads through the scope.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.document.model import Scalar, refuse_constant
from compilegate.errors import CompilegateError

EXECUTION_VARIABLES = (
    *("StartDateTime", "CurrentDateTime", "PipelineName", "PipelineArn"),
    *("PipelineExecutionId", "PipelineExecutionArn", "TrainingJobName", "ProcessingJobName"),
)

Expression = dict[str, Any]
"""The JSON of a variable or function."""
Segment = str | int


def parameter(name: str) -> Expression:
    return {"Get": f"Parameters.{name}"}


def execution_variable(name: str) -> Expression:
    return {"Get": f"Execution.{name}"}


def step_property(step: str, path: str) -> Expression:
    """A property of a step that has ended: `path` leads through what Describe* says of its job."""
    return {"Get": f"Steps.{step}.{path}"}


def join(separator: str, values: Sequence[Any]) -> Expression:
    """Texts, numbers and expressions as one text."""
    return {"Std:Join": {"On": separator, "Values": list(values)}}


def json_get(step: str, property_file: str, path: str) -> Expression:
    """The value at a path in a property file of a step that has ended."""
    file = {"Get": f"Steps.{step}.PropertyFiles.{property_file}"}
    return {"Std:JsonGet": {"PropertyFile": file, "Path": path}}


_TOKEN = re.compile(
    r"""(?P<dot>\.)?(?P<name>[^.\[\]'"\s]+)
      | \[(?P<index>\d+)\]
      | \['(?P<single>[^']*)'\]
      | \["(?P<double>[^"]*)"\]""",
    re.VERBOSE,
)

# The member that names an element, in each list of a Describe* response that can be picked by name.
_NAMING_MEMBERS = ("OutputName", "InputName", "MetricName", "ChannelName", "Name")


class ExpressionError(CompilegateError):
    """A path is malformed, or a Get, Std:Join, Std:JsonGet or condition has no value."""


def parse_path(text: str) -> tuple[Segment, ...]:
    """The segments of a dotted and bracketed path; a leading `$` is allowed. Raises ExpressionError
    for anything else, filters and wildcards included."""
    body = text[1:] if re.match(r"\$([.\[]|$)", text) else text
    segments: list[Segment] = []
    position = 0
    while position < len(body):
        match = _TOKEN.match(body, position)
        # A name follows a dot, except at the very start: `a.b`, `$.a`, but not `a['b']c`.
        if match is None or (match["name"] and not match["dot"] and position > 0):
            raise ExpressionError(f"path {text!r} is malformed at character {position + 1}")
        name = match["name"] or match["single"] or match["double"] or ""
        segments.append(name if match["index"] is None else int(match["index"]))
        position = match.end()
    if not segments:
        raise ExpressionError(f"path {text!r} is empty")
    return tuple(segments)


def lookup(document: Any, path: Sequence[Segment], *, by_name: bool = False) -> Any:
    """The value at `path` in `document`; with `by_name`, a text segment picks the list element
    whose naming member equals it. Raises ExpressionError that says how far the path led."""
    value = document
    for position, segment in enumerate(path):
        try:
            value = _step_into(value, segment, by_name)
        except LookupError:
            walked = format_path(path[:position]) or "the document"
            raise ExpressionError(
                f"{format_path(path)}: {walked} has no {segment!r}; it has {_content(value)}"
            ) from None
    return value


def _step_into(value: Any, segment: Segment, by_name: bool) -> Any:
    if isinstance(value, Mapping) and isinstance(segment, str):
        return value[segment]
    if isinstance(value, list) and isinstance(segment, int):
        return value[segment]
    if isinstance(value, list) and by_name:
        for element in value:
            names = [element.get(key) for key in _NAMING_MEMBERS if isinstance(element, Mapping)]
            if segment in names:
                return element
    raise LookupError


def format_path(path: Sequence[Segment]) -> str:
    """The path as text, in the notation that `parse_path` reads."""
    text = ""
    for segment in path:
        if isinstance(segment, int):
            text += f"[{segment}]"
        elif re.fullmatch(r"[^$.\[\]'\"\s][^.\[\]'\"\s]*", segment):
            text += f".{segment}" if text else segment
        else:
            quote = '"' if "'" in segment else "'"
            text += f"[{quote}{segment}{quote}]"
    return text


def _content(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(sorted(map(str, value))[:20]) or "no members"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"the {type(value).__name__} {value!r}"[:200]


@dataclass(frozen=True)
class StepReference:
    """`Steps.NAME.PATH`: a step's property, or (`PropertyFiles.X`) one of its property files."""

    step: str
    path: tuple[Segment, ...]


def is_expression(value: Any) -> bool:
    """Whether a JSON value is a variable or function rather than data."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    key = next(iter(value))
    return key == "Get" or (isinstance(key, str) and key.startswith("Std:"))


def step_reference(name: str) -> StepReference:
    """The step and the path in `Steps.NAME.PATH`. Raises ExpressionError."""
    _, _, rest = name.partition(".")
    step, _, path = rest.partition(".")
    if not step or not path:
        raise ExpressionError(f"Get {name!r} needs the form Steps.NAME.PROPERTY")
    return StepReference(step, parse_path(path))


def step_references(value: Any) -> Iterator[StepReference]:
    """Every step property and property file that an argument mentions, at any depth, without
    malformed ones: `resolve` names them."""
    if isinstance(value, dict):
        name = value.get("Get")
        if len(value) == 1 and isinstance(name, str) and name.startswith("Steps."):
            try:
                yield step_reference(name)
            except ExpressionError:
                return
        else:
            for item in value.values():
                yield from step_references(item)
    elif isinstance(value, list):
        for item in value:
            yield from step_references(item)


def describe_reference(reference: StepReference) -> str:
    return f"Steps.{reference.step}.{format_path(reference.path)}"


class Unresolved(str):
    """Stands for a value that is only known when the step runs; its text says which one."""

    __slots__ = ()


@dataclass(frozen=True)
class Scope:
    """Values for the variables in one step's expressions."""

    parameters: Mapping[str, Scalar]
    execution: Mapping[str, str]
    """Execution variables by name."""
    read_property: Callable[[StepReference], Any]
    """A finished step's property; raises ExpressionError when there is none."""
    property_file_uri: Callable[[StepReference], Any]
    """The s3:// URI of a step's property file; raises ExpressionError when there is none."""
    read_object: Callable[[str], bytes] | None
    """The bytes of an object of the store; raises ObjectStoreError. None before the execution,
    when what a JsonGet reads has yet to be written."""


def resolve(value: Any, scope: Scope) -> Any:
    """`value` with every expression in it replaced by what it stands for. Raises ExpressionError
    that quotes the expression which has no value."""
    if is_expression(value):
        ((function, argument),) = value.items()
        if function not in _FUNCTIONS:
            raise ExpressionError(
                f"function {function} is unknown, expected {', '.join(_FUNCTIONS)}"
            )
        return _FUNCTIONS[function](argument, scope)
    if isinstance(value, dict):
        return {key: resolve(item, scope) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, scope) for item in value]
    return value


def _get(name: Any, scope: Scope) -> Any:
    if not isinstance(name, str):
        raise ExpressionError(f"Get is {name!r:.80}, expected a name")
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
        raise ExpressionError(f"Std:Join is {argument!r:.80}, expected On and Values")
    separator = argument.get("On", "")
    if not isinstance(separator, str):
        raise ExpressionError(f"On of Std:Join is {separator!r:.80}, expected a string")
    parts = [resolve(value, scope) for value in argument["Values"]]
    text = separator.join(map(_text, parts))
    return Unresolved(text) if any(isinstance(part, Unresolved) for part in parts) else text


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ExpressionError(f"Std:Join has {value!r:.80}, expected strings, numbers and booleans")


def _json_get(argument: Any, scope: Scope) -> Any:
    if not isinstance(argument, dict) or not isinstance(argument.get("Path"), str):
        raise ExpressionError(f"Std:JsonGet is {argument!r:.80}, expected a Path")
    path = parse_path(argument["Path"])
    if "PropertyFile" in argument:
        file = argument["PropertyFile"]
        name = file.get("Get") if isinstance(file, dict) else file
        uri = scope.property_file_uri(step_reference(str(name)))
    else:
        uri = resolve(argument.get("S3Uri"), scope)
    if scope.read_object is None:
        return Unresolved(f"{uri}: {argument['Path']}")
    if not isinstance(uri, str):
        raise ExpressionError(f"Std:JsonGet is {argument!r:.80}, expected a PropertyFile or S3Uri")
    try:
        document = json.loads(scope.read_object(uri), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ExpressionError(f"{uri} is not valid JSON: {error}") from error
    try:
        return lookup(document, path)
    except ExpressionError as error:
        raise ExpressionError(f"{uri}: {error}") from None


_FUNCTIONS: Mapping[str, Callable[[Any, Scope], Any]] = {
    "Get": _get,
    "Std:Join": _join,
    "Std:JsonGet": _json_get,
}
