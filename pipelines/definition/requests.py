"""Check every step's request against the service's own shapes, as botocore publishes them.

botocore's validator knows required fields and types. Enumerations, patterns and lengths are in
the shapes as well, and are checked here, because a definition is an opaque string to every tool
between this machine and the service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import botocore.session
import regex
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator

_OPERATIONS = {
    "Training": ("CreateTrainingJob", "TrainingJobName"),
    "Processing": ("CreateProcessingJob", "ProcessingJobName"),
    "RegisterModel": ("CreateModelPackage", None),
}
_FUNCTIONS = {"Get", "Std:Join", "Std:JsonGet"}
_STAND_INS = {"integer": 1, "long": 1, "boolean": True, "float": 1.0, "double": 1.0}


class RequestError(Exception):
    """A request that the service would refuse. The message has a line for each problem."""


def check_requests(definition: Mapping[str, Any]) -> None:
    """Raises RequestError naming each step, field, what was found and what is allowed."""
    problems = [problem for step in _all_steps(definition["Steps"]) for problem in _problems(step)]
    if problems:
        raise RequestError("\n".join(problems))


def _all_steps(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for step in steps:
        yield step
        if step["Type"] == "Condition":
            yield from _all_steps(step["Arguments"]["IfSteps"])
            yield from _all_steps(step["Arguments"]["ElseSteps"])


def _problems(step: dict[str, Any]) -> list[str]:
    if step["Type"] not in _OPERATIONS:
        return []
    operation, job_name = _OPERATIONS[step["Type"]]
    shape = _service_model().operation_model(operation).input_shape
    problems: list[str] = []
    request = _resolved(step["Arguments"], shape, step["Name"], problems)
    if job_name is not None:
        # The service names the job of a step itself.
        request.setdefault(job_name, "set-by-the-service")
    report = ParamValidator().validate(request, shape)
    if report.has_errors():
        problems += [f"{step['Name']}: {line}" for line in report.generate_report().splitlines()]
    return problems


@cache
def _service_model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("sagemaker")


def _resolved(value: Any, shape: Shape, where: str, problems: list[str]) -> Any:
    """The value with a stand-in of the right type for every expression, noting what is wrong."""
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _FUNCTIONS:
        return _STAND_INS.get(shape.type_name, "x" * max(1, int(shape.metadata.get("min", 1))))
    match shape.type_name, value:
        case "structure", dict():
            return {
                key: _resolved(item, shape.members[key], f"{where}.{key}", problems)
                if key in shape.members
                else item
                for key, item in value.items()
            }
        case "map", dict():
            return {
                key: _resolved(item, shape.value, f"{where}.{key}", problems)
                for key, item in value.items()
            }
        case "list", list():
            most = shape.metadata.get("max")
            if most is not None and len(value) > int(most):
                problems.append(f"{where}: {len(value)} entries, allowed: {most} at most")
            return [
                _resolved(item, shape.member, f"{where}[{number}]", problems)
                for number, item in enumerate(value)
            ]
        case "string", str():
            problems += _string_problems(value, shape, where)
    return value


def _string_problems(value: str, shape: Shape, where: str) -> Iterator[str]:
    allowed = getattr(shape, "enum", None)
    if allowed and value not in allowed:
        yield f"{where}: found {value!r}, allowed: one of {len(allowed)} values: {allowed[:5]}..."
    most = shape.metadata.get("max")
    if most is not None and len(value) > int(most):
        yield f"{where}: {len(value)} characters, allowed: {most} at most"
    pattern = shape.metadata.get("pattern")
    if pattern and not regex.fullmatch(pattern, value, regex.DOTALL):
        yield f"{where}: found {value!r}, allowed: a string that matches {pattern}"
