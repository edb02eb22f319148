"""The jobs of a definition: which instances they take, and how long they may. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.semantics.definition import Definition, Scalar

Kind = Literal["training", "processing"]


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


def jobs_of(definition: Definition, parameters: Mapping[str, Scalar]) -> list[PlannedJob]:
    """The jobs of all steps of types Training and Processing, in definition order."""
    jobs = []
    for step in definition.steps:
        if step.type == "Training":
            resources = step.arguments.get("ResourceConfig", {})
            jobs.append(_job(step.name, "training", step.arguments, resources, parameters))
        elif step.type == "Processing":
            resources = step.arguments.get("ProcessingResources", {}).get("ClusterConfig", {})
            jobs.append(_job(step.name, "processing", step.arguments, resources, parameters))
    return jobs


def _job(
    name: str,
    kind: Kind,
    request: Mapping[str, Any],
    resources: Mapping[str, Any],
    parameters: Mapping[str, Scalar],
) -> PlannedJob:
    limit = _value(request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds"), parameters)
    return PlannedJob(
        step=name,
        kind=kind,
        instance_type=str(_value(resources.get("InstanceType", "unknown"), parameters)),
        instances=int(_value(resources.get("InstanceCount", 1), parameters)),
        max_seconds=None if limit is None else int(limit),
        spot=bool(request.get("EnableManagedSpotTraining", False)),
    )


def _value(value: Any, parameters: Mapping[str, Scalar]) -> Any:
    """A value of a request, or the parameter's that stands in its place."""
    if isinstance(value, dict) and str(value.get("Get", "")).startswith("Parameters."):
        return parameters[value["Get"].removeprefix("Parameters.")]
    return value
