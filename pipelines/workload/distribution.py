"""The keys of `[arms.NAME]` that say in how many processes an arm's job trains."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from pipelines.workload.table import Table


class DistributionKeys(Table):
    """One process on one instance, unless a distribution is named."""

    distribution: Literal["none", "torchrun", "pytorchxla"] = "none"
    """Who starts the processes. `torchrun`: torch's own launcher, NCCL on GPUs and gloo on CPUs."""
    instance_count: int = Field(default=1, ge=1, le=64)
    processes: int = Field(default=1, ge=1, le=64)
    """On each instance; on GPUs as many as there are."""

    @property
    def world_size(self) -> int:
        """Processes that train together: each takes a batch of its own in every step."""
        return self.instance_count * self.processes

    @model_validator(mode="after")
    def _processes_have_a_launcher(self) -> Self:
        if self.distribution == "none":
            for key in ("instance_count", "processes"):
                if getattr(self, key) > 1:
                    raise ValueError(
                        f"{key} is {getattr(self, key)} and distribution is 'none', allowed: 1, or "
                        "distribution = 'torchrun' or 'pytorchxla'"
                    )
        if self.distribution == "torchrun" and self.world_size == 1:
            raise ValueError(
                "distribution is 'torchrun' for one process, allowed: processes or instance_count "
                "above 1, or no distribution"
            )
        return self
