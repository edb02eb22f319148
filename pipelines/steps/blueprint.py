"""Everything that a step is made from, gathered once.

What may be changed from one execution to the next without a new definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from sagemaker.core.workflow.parameters import Parameter, ParameterInteger, ParameterString
from sagemaker.mlops.workflow.steps import CacheConfig

from compilegate.pipelines.deployment import Deployment, Sources
from compilegate.workload import Workload
from compilegate.workload.parameters import APPROVAL, DATA, INSTANCE_TYPE, MAX_RUNTIME, Approval


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The pipeline's parameters, with the workload's own values as defaults."""

    data: ParameterString
    approval: ParameterString
    instance_type: ParameterString
    max_runtime_seconds: ParameterInteger

    def in_order(self) -> list[Parameter]:
        return [self.data, self.approval, self.instance_type, self.max_runtime_seconds]


def parameters_of(workload: Workload, sources: Sources) -> Parameters:
    return Parameters(
        data=ParameterString(DATA, default_value=sources.data),
        approval=ParameterString(
            APPROVAL,
            default_value=workload.registry.approval,
            enum_values=list(get_args(Approval)),
        ),
        instance_type=ParameterString(INSTANCE_TYPE, default_value=workload.compute.instance_type),
        max_runtime_seconds=ParameterInteger(
            MAX_RUNTIME, default_value=workload.compute.max_runtime_seconds
        ),
    )


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
