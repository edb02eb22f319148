"""Check every step's request against the service's own shapes, as botocore publishes them.

botocore's validator knows required fields and types. Enumerations, patterns, lengths and the sizes
of lists and maps are in the shapes as well, and are checked here, because a definition is an opaque
string to every tool between this machine and the service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any

import botocore.session
import regex
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator

from compilegate.document.conditions import condition_faults
from compilegate.document.expressions import (
    FUNCTIONS,
    StepReference,
    describe_reference,
    step_references,
)
from compilegate.document.model import Definition, Step
from compilegate.document.step_types import CONDITION, LAMBDA, STEP_TYPES
from compilegate.errors import CompilegateError
from compilegate.pipelines.requests.lengths import Lengths

_STAND_INS = {"integer": 1, "long": 1, "boolean": True, "float": 1.0, "double": 1.0}


class InvalidRequestError(CompilegateError):
    """A request that the service would refuse. The message has a line for each problem."""


def check_requests(definition: Definition) -> None:
    """Raises InvalidRequestError naming each step, field, what was found and what is allowed."""
    steps = {step.name: step for step in definition.steps}
    lengths = Lengths({name: step.arguments for name, step in steps.items()})
    defaults = {parameter.name: parameter.default for parameter in definition.parameters}
    problems: list[str] = []
    for step in definition.steps:
        problems += _request_problems(step, lengths, defaults)
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
    shape = _service_model().shape_for(description)
    for segment in reference.path:
        if shape.type_name == "structure" and segment in shape.members:
            shape = shape.members[segment]
        elif shape.type_name == "list":
            shape = shape.member
        elif shape.type_name == "map":
            shape = shape.value
        else:
            return False
    return True


def _request_problems(step: Step, lengths: Lengths, defaults: Mapping[str, Any]) -> list[str]:
    known = STEP_TYPES[step.type]
    if known.operation is None:
        return []
    shape = _service_model().operation_model(known.operation).input_shape
    check = _Check(lengths, defaults)
    request = check.resolved(step.arguments, shape, step.name)
    if known.job_name is not None:
        # The service names the job of a step itself.
        request.setdefault(known.job_name, "set-by-the-service")
    report = ParamValidator().validate(request, shape)
    if report.has_errors():
        check.problems += [f"{step.name}: {line}" for line in report.generate_report().splitlines()]
    return check.problems


@cache
def _service_model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("sagemaker")


@dataclass
class _Check:
    """What is wrong with one request."""

    lengths: Lengths
    defaults: Mapping[str, Any]
    """The defaults of the pipeline's parameters."""
    problems: list[str] = field(default_factory=list)

    def resolved(self, value: Any, shape: Shape, where: str) -> Any:
        """The value with a stand-in of the right type for every expression, noting what is
        wrong."""
        if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in FUNCTIONS:
            return self._stand_in(value, shape, where)
        match shape.type_name, value:
            case "structure", dict():
                return {
                    key: self.resolved(item, shape.members[key], f"{where}.{key}")
                    if key in shape.members
                    else item
                    for key, item in value.items()
                }
            case "map", dict():
                self._check_size(value, shape, where)
                for key in value:
                    self.problems += _string_problems(key, shape.key, f"{where}, the key")
                return {
                    key: self.resolved(item, shape.value, f"{where}.{key}")
                    for key, item in value.items()
                }
            case "list", list():
                self._check_size(value, shape, where)
                return [
                    self.resolved(item, shape.member, f"{where}[{number}]")
                    for number, item in enumerate(value)
                ]
            case "string", str():
                self.problems += _string_problems(value, shape, where)
        return value

    def _stand_in(self, expression: dict[str, Any], shape: Shape, where: str) -> Any:
        parameter = str(expression.get("Get")).removeprefix("Parameters.")
        default = self.defaults.get(parameter)
        if shape.type_name == "string" and isinstance(default, str):
            self.problems += _string_problems(default, shape, f"the parameter {parameter}")
        if shape.type_name != "string":
            return _STAND_INS.get(shape.type_name)
        most, longest = shape.metadata.get("max"), self.lengths.longest(expression)
        if most is not None and longest is not None and longest > int(most):
            self.problems.append(
                f"{where}: up to {longest} characters once it is filled in, allowed: {most} at most"
            )
        return "x" * max(1, int(shape.metadata.get("min", 1)))

    def _check_size(self, value: Sized, shape: Shape, where: str) -> None:
        most = shape.metadata.get("max")
        if most is not None and len(value) > int(most):
            self.problems.append(f"{where}: {len(value)} entries, allowed: {most} at most")


def _string_problems(value: str, shape: Shape, where: str) -> Iterator[str]:
    allowed = getattr(shape, "enum", None)
    if allowed and value not in allowed:
        close = get_close_matches(value, allowed, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        yield f"{where}: found {value!r}, allowed: one of {len(allowed)} values{meant}"
    most = shape.metadata.get("max")
    if most is not None and len(value) > int(most):
        yield f"{where}: {len(value)} characters, allowed: {most} at most"
    pattern = shape.metadata.get("pattern")
    if pattern and not regex.fullmatch(pattern, value, regex.DOTALL):
        yield f"{where}: found {value!r}, allowed: a string that matches {pattern}"
