"""Check every step of a definition before anybody pays for it: requests, references, conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from compilegate.document.conditions import condition_faults
from compilegate.document.expressions import StepReference, describe_reference, step_references
from compilegate.document.model import Definition, Step
from compilegate.document.requests import Shape, has_property, request_faults, string_faults
from compilegate.document.step_types import CONDITION, LAMBDA, STEP_TYPES
from compilegate.errors import CompilegateError


class InvalidRequestError(CompilegateError):
    """A request that the service would refuse. The message has a line for each problem."""


def check_requests(definition: Definition) -> None:
    """Raises InvalidRequestError naming each step, field, what was found and what is allowed."""
    steps = {step.name: step for step in definition.steps}
    defaults = {parameter.name: parameter.default for parameter in definition.parameters}
    check = partial(_default_problems, defaults)
    problems: list[str] = []
    for step in definition.steps:
        problems += request_faults(step.type, step.arguments, step.name, check)
        problems += _reference_problems(step, steps)
        problems += _condition_problems(step)
    if problems:
        # A wrong parameter is a problem of every step that uses it, and is named once.
        raise InvalidRequestError(*dict.fromkeys(problems))


def _condition_problems(step: Step) -> Iterator[str]:
    if step.type == CONDITION:
        for condition in step.arguments["Conditions"]:
            yield from (f"{step.name}: {fault}" for fault in condition_faults(condition))
    if step.branch is not None and not STEP_TYPES[step.type].on_branch:
        yield (
            f"{step.name}: found on a branch of {step.branch.condition}, allowed: {step.type} "
            "steps side by side"
        )


def _reference_problems(step: Step, steps: Mapping[str, Step]) -> Iterator[str]:
    for dependency in step.depends_on:
        if dependency.step not in steps:
            yield f"{step.name}: depends on {dependency.step}, which is not a step"
    for reference in step_references(step.arguments):
        if reference.step not in steps:
            yield f"{step.name}: {describe_reference(reference)} refers to no step"
        elif not _has(steps[reference.step], reference):
            yield (
                f"{step.name}: {describe_reference(reference)} is not a property of "
                f"a {steps[reference.step].type} step"
            )


def _has(target: Step, reference: StepReference) -> bool:
    """Whether the step will have the property that an expression refers to."""
    root, *rest = reference.path
    if root == "PropertyFiles":
        return rest in [[file.name] for file in target.property_files]
    if target.type == LAMBDA:
        outputs = [[output.name] for output in target.output_parameters]
        return root == "OutputParameters" and rest in outputs
    description = STEP_TYPES[target.type].description
    if description is None:
        return [root, *rest] in [[name] for name in STEP_TYPES[target.type].properties]
    return has_property(description, reference.path)


def _default_problems(
    defaults: Mapping[str, Any], expression: Mapping[str, Any], shape: Shape, _where: str
) -> Iterator[str]:
    """What the service would refuse in the default of a parameter that is used as a text."""
    parameter = str(expression.get("Get")).removeprefix("Parameters.")
    default = defaults.get(parameter)
    if shape["type"] == "string" and isinstance(default, str):
        yield from string_faults(default, shape, f"the parameter {parameter}")
