"""The variables and functions of a definition, as its JSON writes them: Get, Std:Join, Std:JsonGet.

The local runner gives them their values in `evaluation.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.document.paths import ExpressionError, Segment, format_path, parse_path

FUNCTIONS = ("Get", "Std:Join", "Std:JsonGet")

EXECUTION_VARIABLES = (
    "StartDateTime",
    "CurrentDateTime",
    "PipelineName",
    "PipelineArn",
    "PipelineExecutionId",
    "PipelineExecutionArn",
    "TrainingJobName",
    "ProcessingJobName",
)


Expression = dict[str, Any]
"""The JSON of a variable or function."""


def parameter(name: str) -> Expression:
    """The value of a pipeline parameter."""
    return {"Get": f"Parameters.{name}"}


def execution_variable(name: str) -> Expression:
    """One of EXECUTION_VARIABLES."""
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
    """Every step property and property file that an argument mentions, at any depth.

    Malformed references are left out: `resolve` names them.
    """
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
    """The reference as the definition writes it."""
    return f"Steps.{reference.step}.{format_path(reference.path)}"
