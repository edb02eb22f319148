"""Everything that a step is made from, gathered once."""

from __future__ import annotations

from dataclasses import dataclass

from sagemaker.mlops.workflow.steps import CacheConfig

from pipelines.definition.deployment import Deployment, Sources
from pipelines.definition.parameters import Parameters, parameters_of
from pipelines.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A workload, where it will run, and what both give together."""

    workload: Workload
    deployment: Deployment
    sources: Sources
    parameters: Parameters
    cache: CacheConfig | None
    """For the steps whose result depends on nothing but their request; None turns caching off."""


def blueprint_of(workload: Workload, deployment: Deployment, sources: Sources) -> Blueprint:
    return Blueprint(
        workload=workload,
        deployment=deployment,
        sources=sources,
        parameters=parameters_of(workload, sources),
        cache=CacheConfig(enable_caching=True, expire_after=workload.cache.expire_after)
        if workload.cache.enabled
        else None,
    )
