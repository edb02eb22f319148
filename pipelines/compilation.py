"""Compile a workload to the definition of a SageMaker pipeline."""

from __future__ import annotations

from compilegate.document.model import Definition, parameter_values
from compilegate.document.writing import write_definition
from compilegate.pipelines.deployment import Deployment, Sources
from compilegate.pipelines.requests.checks import InvalidRequestError, check_requests
from compilegate.pipelines.requests.images import image_faults
from compilegate.pipelines.requests.keys_network_tags import volume_key_faults
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.comparison import comparison_steps
from compilegate.pipelines.steps.neuron import isolation_faults
from compilegate.workload import Workload


def compile_definition(workload: Workload, deployment: Deployment, sources: Sources) -> str:
    """The definition of the workload's pipeline as it is written: see `compile_document`."""
    return write_definition(compile_document(workload, deployment, sources))


def compile_document(workload: Workload, deployment: Deployment, sources: Sources) -> Definition:
    """The definition of the workload's pipeline. No AWS, no SageMaker SDK.

    Raises InvalidRequestError when a step's request is not one that the service would take, cannot
    work in the deployment's network, or names an image that the deployment does not have.
    """
    _check_reach(workload, deployment)
    _check_images(workload, deployment)
    if workload.posture is not None and deployment.posture_function is None:
        raise InvalidRequestError(
            "posture is given, and there is no function in this account that keeps its record, "
            "allowed: executions on this machine, or a workload without [posture]"
        )
    blueprint = Blueprint(workload=workload, deployment=deployment, sources=sources)
    steps = comparison_steps(blueprint)
    definition = Definition(parameters=blueprint.parameters, steps=tuple(steps))
    check_requests(definition)
    _check_schedule(workload, definition)
    return definition


def _check_schedule(workload: Workload, definition: Definition) -> None:
    """What the schedule gives each execution; what a person gives one is checked at its start."""
    given = {} if workload.schedule is None else workload.schedule.parameters.given
    values, _ = parameter_values(definition.parameters, given)
    if faults := list(volume_key_faults(definition, values)):
        raise InvalidRequestError(*(f"schedule.parameters.{fault}" for fault in faults))


def _check_reach(workload: Workload, deployment: Deployment) -> None:
    model = workload.kind.hub_model
    if deployment.isolated and model is not None and not model.startswith("/"):
        raise InvalidRequestError(
            f"model.id is {model!r}, which jobs in network isolation cannot fetch, allowed: "
            "the folder of a model in the image, or a network without isolation"
        )


def _check_images(workload: Workload, deployment: Deployment) -> None:
    faults = [
        *image_faults(deployment, workload),
        *isolation_faults(deployment, workload.arms),
    ]
    if faults:
        raise InvalidRequestError(*faults)
