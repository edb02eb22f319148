"""Everything that a step is made from, gathered once.

The pipeline's parameters: what may be changed from one execution to the next without a new
definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from compilegate.document.model import CachePolicy, Parameter, parse_duration
from compilegate.pipelines.deployment import Deployment, Sources
from compilegate.workload import Workload
from compilegate.workload.parameters import (
    APPROVAL,
    ATTEMPT,
    DATA,
    INSTANCE_TYPE,
    MAX_RUNTIME,
    Approval,
)


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A workload, and where it will run."""

    workload: Workload
    deployment: Deployment
    sources: Sources

    @property
    def cache(self) -> CachePolicy | None:
        """For the steps whose result depends on nothing but their request; None where the workload
        turns caching off."""
        declared = self.workload.cache
        if not declared.enabled:
            return None
        return CachePolicy(parse_duration(declared.expire_after))

    @property
    def training_cache(self) -> CachePolicy | None:
        """For the steps that train arms; None where each execution trains anew."""
        schedule = self.workload.schedule
        return None if schedule is not None and schedule.retrain == "always" else self.cache

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """With the workload's own values as defaults."""
        workload, compute = self.workload, self.workload.compute
        return (
            Parameter(DATA, "String", self.sources.data),
            Parameter(APPROVAL, "String", workload.registry.approval, get_args(Approval)),
            Parameter(INSTANCE_TYPE, "String", compute.instance_type),
            Parameter(MAX_RUNTIME, "Integer", compute.max_runtime_seconds),
            Parameter(ATTEMPT, "String", "1"),
        )
