"""The jobs of a definition: which instances they take, how long they may, and what the service
refuses of that. Pure but for the list of instance types, which botocore brings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal

import botocore.session

from compilegate.document.model import Definition, Scalar, Step, parameter_values
from compilegate.document.step_types import PROCESSING, STEP_TYPES, TRAINING, TRANSFORM
from compilegate.errors import CompilegateError
from compilegate.pipelines.requests.keys_network_tags import volume_key_faults

Kind = Literal["training", "processing", "transform"]
KINDS: Mapping[str, Kind] = {
    TRAINING: "training",
    PROCESSING: "processing",
    TRANSFORM: "transform",
}
"""What quotas and prices call the job of each type of step that runs one."""


@dataclass(frozen=True)
class PlannedJob:
    """One step that takes instances."""

    step: str
    kind: Kind
    instance_type: str
    instances: int
    max_seconds: int | None
    """How long it may run; None when the request does not say, and the service's default holds."""
    spot: bool
    max_wait_seconds: int | None
    """How long a spot job may take in all, the waiting for machines included."""


def jobs_of(definition: Definition, parameters: Mapping[str, Scalar]) -> list[PlannedJob]:
    """The jobs of all steps that run one, in definition order."""
    return [
        _job(step, parameters)
        for step in definition.steps
        if step.type in STEP_TYPES and STEP_TYPES[step.type].job_name is not None
    ]


class PlanError(CompilegateError):
    """A definition cannot be executed as asked; a line for each reason."""


def jobs_given(
    definition: Definition, given: Mapping[str, str]
) -> tuple[Mapping[str, Scalar], list[PlannedJob]]:
    """The parameters' values, and the jobs that would run with them. Raises PlanError for
    parameters that the definition does not declare or the service would refuse."""
    values, faults = parameter_values(definition.parameters, given)
    if faults:
        raise PlanError(*faults)
    jobs = jobs_of(definition, values)
    if unable := [*volume_key_faults(definition, values), *job_faults(jobs)]:
        raise PlanError(*unable)
    return values, jobs


def job_faults(jobs: Sequence[PlannedJob]) -> list[str]:
    """A sentence for each thing that parameters make of jobs and that the service refuses, when a
    job's turn has come and everything before it was paid for."""
    types = {job.instance_type for job in jobs if job.kind == "training"}
    return [*map(_unknown_type, sorted(types - training_instance_types())), *_runtime_faults(jobs)]


def _unknown_type(found: str) -> str:
    close = get_close_matches(found, training_instance_types(), n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"the instance type is {found!r}, which SageMaker does not know{meant}"


@cache
def training_instance_types() -> frozenset[str]:
    """The types that the API accepts, as botocore publishes them."""
    service = botocore.session.get_session().get_service_model("sagemaker")
    return frozenset(service.shape_for("TrainingInstanceType").enum)


def _runtime_faults(jobs: Iterable[PlannedJob]) -> list[str]:
    """What is longer than a spot job may take in all."""
    waits = [
        (job.max_wait_seconds, job.max_seconds, job.step)
        for job in jobs
        if job.spot and job.max_wait_seconds is not None and job.max_seconds is not None
    ]
    if not waits:
        return []
    wait, runtime, step = min(waits)
    if runtime <= wait:
        return []
    return [
        f"the maximum runtime is {runtime} seconds, allowed: {wait}, within which the spot job "
        f"{step} has to wait and run"
    ]


def _job(step: Step, parameters: Mapping[str, Scalar]) -> PlannedJob:
    request = step.arguments
    resources: Any = request
    for member in STEP_TYPES[step.type].resources:
        resources = resources.get(member, {})
    limits = request.get("StoppingCondition", {})
    runtime, wait = (
        _seconds(limits.get(name), parameters)
        for name in ("MaxRuntimeInSeconds", "MaxWaitTimeInSeconds")
    )
    return PlannedJob(
        step=step.name,
        kind=KINDS[step.type],
        instance_type=str(_value(resources.get("InstanceType", "unknown"), parameters)),
        instances=int(_value(resources.get("InstanceCount", 1), parameters)),
        max_seconds=runtime,
        spot=bool(request.get("EnableManagedSpotTraining", False)),
        max_wait_seconds=wait,
    )


def _seconds(value: Any, parameters: Mapping[str, Scalar]) -> int | None:
    return None if value is None else int(_value(value, parameters))


def _value(value: Any, parameters: Mapping[str, Scalar]) -> Any:
    """A value of a request, or the parameter's that stands in its place."""
    if isinstance(value, dict) and str(value.get("Get", "")).startswith("Parameters."):
        return parameters[value["Get"].removeprefix("Parameters.")]
    return value
