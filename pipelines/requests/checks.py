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
from compilegate.pipelines.requests.lengths import Lengths


class InvalidRequestError(CompilegateError):
    """A request that the service would refuse. The message has a line for each problem."""


def check_requests(definition: Definition) -> None:
    """Raises InvalidRequestError naming each step, field, what was found and what is allowed."""
    steps = {step.name: step for step in definition.steps}
    lengths = Lengths({name: step.arguments for name, step in steps.items()})
    defaults = {parameter.name: parameter.default for parameter in definition.parameters}
    check = partial(_expression_problems, lengths=lengths, defaults=defaults)
    problems: list[str] = []
    for step in definition.steps:
        problems += request_faults(step.type, step.arguments, step.name, check)
        problems += _reference_problems(step, steps)
        problems += _condition_problems(step, steps)
    if problems:
        # What is wrong with a parameter is so wherever it is used.
        raise InvalidRequestError(*dict.fromkeys(problems))


def _condition_problems(step: Step, steps: Mapping[str, Step]) -> Iterator[str]:
    if step.type == CONDITION:
        for condition in step.arguments["Conditions"]:
            yield from (f"{step.name}: {fault}" for fault in condition_faults(condition))
    if step.branch is not None and not STEP_TYPES[step.type].on_branch:
        yield (
            f"{step.name}: found on a branch of {step.branch.condition}, allowed: {step.type} "
            "steps side by side"
        )


def _reference_problems(step: Step, steps: Mapping[str, Step]) -> Iterator[str]:
    """A sentence for each expression that names nothing that there will be."""
    for dependency in step.depends_on:
        if dependency.step not in steps:
            yield f"{step.name}: depends on {dependency.step}, which is not a step"
    for reference in step_references(step.arguments):
        if reference.step not in steps:
            yield f"{step.name}: {describe_reference(reference)} refers to no step"
        elif not _is_given(reference, steps[reference.step]):
            yield (
                f"{step.name}: {describe_reference(reference)} is not a property of "
                f"a {steps[reference.step].type} step"
            )


def _is_given(reference: StepReference, target: Step) -> bool:
    root, *rest = reference.path
    if root == "PropertyFiles":
        return rest in [[file.name] for file in target.property_files]
    if target.type == LAMBDA:
        outputs = [output.name for output in target.output_parameters]
        return root == "OutputParameters" and rest in [[name] for name in outputs]
    description = STEP_TYPES[target.type].description
    if description is None:
        return [root, *rest] in [[name] for name in STEP_TYPES[target.type].properties]
    return has_property(description, reference.path)


def _expression_problems(
    expression: Mapping[str, Any],
    shape: Shape,
    where: str,
    *,
    lengths: Lengths,
    defaults: Mapping[str, Any],
) -> Iterator[str]:
    """What is wrong with an expression: a default that the service would refuse, or a text that may
    get too long."""
    if shape["type"] != "string":
        return
    parameter = str(expression.get("Get")).removeprefix("Parameters.")
    default = defaults.get(parameter)
    if isinstance(default, str):
        yield from string_faults(default, shape, f"the parameter {parameter}")
    most, longest = shape.get("max"), lengths.longest(expression)
    if most is not None and longest is not None and longest > int(most):
        yield (f"{where}: up to {longest} characters once it is filled in, allowed: {most} at most")
