"""Check every step of a definition before anybody pays for it: requests, references, conditions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from compilegate.document.conditions import condition_faults
from compilegate.document.expressions import (
    ExpressionError,
    StepReference,
    describe_reference,
    lookup,
    parse_path,
    step_references,
)
from compilegate.document.model import Definition, Step
from compilegate.document.requests import Shape, has_property, request_faults, string_faults
from compilegate.document.step_types import CONDITION, LAMBDA, STEP_TYPES
from compilegate.errors import CompilegateError

JOB_NAME = 63
"""The most characters of a job's name."""
NUMBER = 24
"""Characters of the longest floating-point number, as `-1.7976931348623157e+308`."""
_EXECUTION = {"Execution.PipelineExecutionId": 12}
_MODEL_ARCHIVE = "/output/model.tar.gz"
_STEP = re.compile(r"Steps\.(?P<step>[\w-]+)\.(?P<path>.+)")


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


def _expression_problems(
    expression: Mapping[str, Any],
    shape: Shape,
    where: str,
    *,
    lengths: Lengths,
    defaults: Mapping[str, Any],
) -> Iterator[str]:
    """A default that the service would refuse, or a text that may get too long."""
    if shape["type"] != "string":
        return
    parameter = str(expression.get("Get")).removeprefix("Parameters.")
    default = defaults.get(parameter)
    if isinstance(default, str):
        yield from string_faults(default, shape, f"the parameter {parameter}")
    limit, longest = shape.get("max"), lengths.longest(expression)
    if limit is not None and longest is not None and longest > int(limit):
        yield f"{where}: up to {longest} characters once it is filled in, allowed: {limit} at most"


@dataclass(frozen=True)
class Lengths:
    """How long the values of a definition can get once the service has filled in its variables.

    The service applies a string's limit to what a Join comes to in an execution, after the jobs
    before it were paid for; here the limit is applied to the longest that every part can be.
    """

    requests: Mapping[str, Mapping[str, Any]]
    """Each step's request by its name."""

    def longest(self, value: Any) -> int | None:
        """The most characters that a value can have; None where that is unknown."""
        match value:
            case {"Std:Join": {"On": separator, "Values": values}}:
                lengths = [self.longest(part) for part in values]
                known = [length for length in lengths if length is not None]
                between = len(separator) * (len(values) - 1)
                return sum(known) + between if len(known) == len(lengths) else None
            case {"Get": str(reference)}:
                return self._of_reference(reference)
            case str() | int() | float():
                return len(str(value))
        return None

    def _of_reference(self, reference: str) -> int | None:
        found = _STEP.fullmatch(reference)
        if found is None:
            return _EXECUTION.get(reference)
        request, path = self.requests.get(found["step"], {}), found["path"]
        if path in {"TrainingJobName", "ProcessingJobName"}:
            return JOB_NAME
        if path.startswith("FinalMetricDataList["):
            return NUMBER
        if path == "ModelArtifacts.S3ModelArtifacts":
            output = self._of_member(request, "OutputDataConfig.S3OutputPath")
            return None if output is None else output + 1 + JOB_NAME + len(_MODEL_ARCHIVE)
        return self._of_member(request, path)

    def _of_member(self, request: Mapping[str, Any], path: str) -> int | None:
        """The length of a job's property that repeats a member of its request."""
        try:
            return self.longest(lookup(request, parse_path(path), by_name=True))
        except ExpressionError:
            return None
