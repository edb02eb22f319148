"""Compile a workload to the definition of a SageMaker pipeline. No AWS, no SageMaker SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compilegate.document.model import Definition, Step, parameter_values
from compilegate.document.requests import Shape, request_faults, string_faults
from compilegate.document.writing import write_definition
from compilegate.errors import CompilegateError
from compilegate.pipelines.deployment import Deployment, Sources
from compilegate.pipelines.images import image_faults
from compilegate.pipelines.requests import Blueprint, volume_key_faults
from compilegate.pipelines.steps.gate import gate_steps, open_step
from compilegate.pipelines.steps.posture import posture_steps
from compilegate.pipelines.steps.processing import prepared_data
from compilegate.pipelines.steps.registration import decide_steps
from compilegate.pipelines.steps.training import (
    after_extraction,
    extraction_steps,
    extracts,
    training_steps,
)
from compilegate.workload import Workload


class InvalidRequestError(CompilegateError):
    """A request that the service would refuse. The message has a line for each problem."""


def compile_definition(workload: Workload, deployment: Deployment, sources: Sources) -> str:
    """The definition of the workload's pipeline, as indented JSON.

    The same arguments give the same bytes. Raises InvalidRequestError when a step's request is not
    one that the service would take, cannot work in the deployment's network, or names an image that
    the deployment does not have.
    """
    faults = [*_isolation_faults(workload, deployment), *image_faults(deployment, workload)]
    if workload.posture is not None and deployment.posture_function is None:
        faults.append(
            "posture is given, and there is no function in this account that keeps its record, "
            "allowed: executions on this machine, or a workload without [posture]"
        )
    if faults:
        raise InvalidRequestError(*faults)
    blueprint = Blueprint(workload=workload, deployment=deployment, sources=sources)
    steps = _comparison(blueprint) if workload.posture is None else posture_steps(blueprint)
    definition = Definition(parameters=blueprint.parameters, steps=tuple(steps))
    check_requests(definition)
    _check_schedule(workload, definition)
    return write_definition(definition)


def _comparison(blueprint: Blueprint) -> list[Step]:
    """Every step of a workload without a posture, in the order in which they can run."""
    before, data = prepared_data(blueprint)
    trained = training_steps(blueprint, data)
    opened = open_step(blueprint)
    gating = gate_steps(blueprint, trained, opened)
    decide = decide_steps(blueprint, gating[-1], trained)
    extraction = extraction_steps(blueprint, trained)
    return [*before, *extraction, *after_extraction(trained, extraction), opened, *gating, *decide]


def _isolation_faults(workload: Workload, deployment: Deployment) -> list[str]:
    """A sentence for each thing that jobs in network isolation could not reach."""
    if not deployment.isolated:
        return []
    model = workload.kind.hub_model
    faults = [
        f"arms.{name}.neuron.precompile is true, and jobs in network isolation cannot reach the "
        "cache that it fills, allowed: false there, or a network without isolation"
        for name, arm in workload.arms.items()
        if extracts(arm)
    ]
    if model is not None and not model.startswith("/"):
        faults.append(
            f"model.id is {model!r}, which jobs in network isolation cannot fetch, allowed: "
            "the folder of a model in the image, or a network without isolation"
        )
    return faults


def _check_schedule(workload: Workload, definition: Definition) -> None:
    """Check the parameters of the schedule's executions; others are checked at their start."""
    given = {} if workload.schedule is None else workload.schedule.parameters.given
    values, _ = parameter_values(definition.parameters, given)
    if faults := list(volume_key_faults(definition, values)):
        raise InvalidRequestError(*(f"schedule.parameters.{fault}" for fault in faults))


def check_requests(definition: Definition) -> None:
    """Raises InvalidRequestError naming each step, field, what was found and what is allowed.

    Names, lengths and patterns follow from what people declare. References and conditions do not:
    the tests hold those of every definition against the SageMaker SDK.
    """
    defaults = {parameter.name: parameter.default for parameter in definition.parameters}

    def default_problems(value: Mapping[str, Any], shape: Shape, where: str) -> Iterator[str]:
        """What the service would refuse in the default of a parameter that is used as a text."""
        parameter = str(value.get("Get")).removeprefix("Parameters.")
        default = defaults.get(parameter)
        if shape["type"] == "string" and isinstance(default, str):
            yield from string_faults(default, shape, f"the parameter {parameter}")

    problems = [
        problem
        for step in definition.steps
        for problem in request_faults(step.type, step.arguments, step.name, default_problems)
    ]
    if problems:
        # A wrong parameter is a problem of every step that uses it, and is named once.
        raise InvalidRequestError(*dict.fromkeys(problems))
