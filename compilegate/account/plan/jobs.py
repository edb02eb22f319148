"""The jobs of a definition: which instances they take, how long they may, and what the service
refuses of that. Pure but for the list of instance types, which botocore brings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

import botocore.session

from compilegate.document.model import Definition, Scalar, Step, parameter_values
from compilegate.document.step_types import STEP_TYPES
from compilegate.errors import CompilegateError
from compilegate.pipelines.requests import volume_key_faults


class PlanError(CompilegateError):
    """A definition cannot be executed as asked; a line for each reason."""


@dataclass(frozen=True)
class PlannedJob:
    step: str
    kind: str
    """What quotas and prices call it: `training`, `processing` or `transform`."""
    instance_type: str
    instances: int
    max_seconds: int | None
    """How long it may run; None when the request does not say, and the service's default holds."""
    spot: bool
    max_wait_seconds: int | None
    """How long a spot job may take in all, the waiting for machines included."""


def jobs_given(definition: Definition, given: Mapping[str, str]) -> list[PlannedJob]:
    """The jobs that would run with these parameters. Raises PlanError for parameters that the
    definition does not declare or the service would refuse."""
    values, faults = parameter_values(definition.parameters, given)
    jobs = [] if faults else jobs_of(definition, values)
    if problems := faults or [*volume_key_faults(definition, values), *job_faults(jobs)]:
        raise PlanError(*problems)
    return jobs


def jobs_of(definition: Definition, parameters: Mapping[str, Scalar]) -> list[PlannedJob]:
    return [
        _job(step, parameters)
        for step in definition.steps
        if step.type in STEP_TYPES and STEP_TYPES[step.type].job_name is not None
    ]


def _job(step: Step, parameters: Mapping[str, Scalar]) -> PlannedJob:
    request = step.arguments
    resources: Any = request
    for member in STEP_TYPES[step.type].resources:
        resources = resources.get(member, {})
    limits = request.get("StoppingCondition", {})
    runtime, wait = (
        None if name not in limits else int(_value(limits[name], parameters))
        for name in ("MaxRuntimeInSeconds", "MaxWaitTimeInSeconds")
    )
    return PlannedJob(
        step=step.name,
        kind=step.type.lower(),
        instance_type=str(_value(resources.get("InstanceType", "unknown"), parameters)),
        instances=int(_value(resources.get("InstanceCount", 1), parameters)),
        max_seconds=runtime,
        spot=bool(request.get("EnableManagedSpotTraining", False)),
        max_wait_seconds=wait,
    )


def _value(value: Any, parameters: Mapping[str, Scalar]) -> Any:
    """A value of a request, or the parameter's that stands in its place."""
    if isinstance(value, dict) and str(value.get("Get", "")).startswith("Parameters."):
        return parameters[value["Get"].removeprefix("Parameters.")]
    return value


@cache
def training_instance_types() -> frozenset[str]:
    """The types that the API accepts, as botocore publishes them."""
    service = botocore.session.get_session().get_service_model("sagemaker")
    return frozenset(service.shape_for("TrainingInstanceType").enum)


def job_faults(jobs: Sequence[PlannedJob]) -> list[str]:
    """A sentence for each thing that parameters make of jobs and that the service refuses, when a
    job's turn has come and everything before it was paid for."""
    types = {job.instance_type for job in jobs if job.kind == "training"}
    faults = []
    for found in sorted(types - training_instance_types()):
        close = get_close_matches(found, training_instance_types(), n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        faults.append(f"the instance type is {found!r}, which SageMaker does not know{meant}")
    for job in jobs:
        runtime, wait = job.max_seconds, job.max_wait_seconds
        if job.spot and runtime is not None and wait is not None and runtime > wait:
            return [
                *faults,
                f"the maximum runtime is {runtime} seconds, allowed: {wait}, within which the spot "
                f"job {job.step} has to wait and run",
            ]
    return faults
