"""Writes the JSON of a definition, as the SageMaker Python SDK does: the same members in the same
order, and none for what is not set. `reading.py` reads it back to an equal Definition. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from compilegate.document.members import write_part
from compilegate.document.model import VERSION, Branch, Definition, Dependency, Step
from compilegate.document.step_types import CONDITION


def write_definition(definition: Definition) -> str:
    """Indented JSON that ends in a line feed."""
    return json.dumps(definition_document(definition), indent=2) + "\n"


def compact(definition: str) -> str:
    """The same JSON without the space that is there for people, as CloudFormation gets it."""
    return json.dumps(json.loads(definition), separators=(",", ":"))


def definition_document(definition: Definition) -> dict[str, Any]:
    """The definition as JSON values."""
    document: dict[str, Any] = {
        "Version": VERSION,
        "Metadata": {},
        "Parameters": [write_part(parameter) for parameter in definition.parameters],
    }
    if definition.max_parallel_steps is not None:
        document["ParallelismConfiguration"] = {
            "MaxParallelExecutionSteps": definition.max_parallel_steps
        }
    return document | {"Steps": _steps(definition, None)}


def _steps(definition: Definition, branch: Branch | None) -> list[dict[str, Any]]:
    """The steps of one level: those on a branch, or those on none."""
    return [_step(definition, step) for step in definition.steps if step.branch == branch]


def _step(definition: Definition, step: Step) -> dict[str, Any]:
    arguments = dict(step.arguments)
    if step.type == CONDITION:
        for key, taken_when in (("IfSteps", True), ("ElseSteps", False)):
            arguments[key] = _steps(definition, Branch(step.name, taken_when))
    return {"Name": step.name, "Type": step.type, "Arguments": arguments, **dict(_around(step))}


def _around(step: Step) -> Iterator[tuple[str, Any]]:
    """The members that say what the service does around a step's request."""
    if step.depends_on:
        yield "DependsOn", [_dependency(each) for each in step.depends_on]
    if step.display_name is not None:
        yield "DisplayName", step.display_name
    if step.description is not None:
        yield "Description", step.description
    if step.retry_policies:
        yield "RetryPolicies", [write_part(each) for each in step.retry_policies]
    if step.cache is not None:
        yield "CacheConfig", write_part(step.cache)
    if step.property_files:
        yield "PropertyFiles", [write_part(each) for each in step.property_files]
    if step.function is not None:
        yield "FunctionArn", step.function
    yield from step.members.items()
    if step.function is not None or step.output_parameters:
        yield "OutputParameters", [write_part(each) for each in step.output_parameters]


def _dependency(dependency: Dependency) -> str | dict[str, Any]:
    """A step's name alone, where it waits for what steps usually wait for."""
    return dependency.step if dependency.trigger == Dependency.trigger else write_part(dependency)
