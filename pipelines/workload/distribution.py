"""The keys of `[arms.NAME]` that say in how many processes an arm's job trains."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipelines.workload.table import Table

Distribution = Literal["none", "torchrun", "pytorchxla", "sm_dist"]


class DistributionKeys(Table):
    """One process on one instance, unless a distribution is named."""

    distribution: Distribution = "none"
    """What starts the processes. `torchrun`: torch's own launcher, NCCL on GPUs and gloo on CPUs.
    The others, of Training Compiler, start one for each accelerator."""
    instance_count: int = Field(default=1, ge=1, le=100)
    processes: int = Field(default=1, ge=1, le=64)
    """On each instance; by default one, and with Training Compiler's one for each accelerator."""

    @property
    def world_size(self) -> int:
        """Processes that train together: each takes a batch of its own in every step."""
        return self.instance_count * self.processes

    def check_processes(self) -> None:
        """Raises ValueError where the processes have no launcher, or the launcher no processes."""
        if self.instance_count > 1 and self.distribution == "none":
            raise ValueError(
                f"instance_count is {self.instance_count} and distribution is 'none', allowed: "
                "a distribution, or one instance; without one each instance would train alone"
            )
        if self.processes > 1 and self.distribution == "none":
            raise ValueError(
                f"processes is {self.processes} and distribution is 'none', allowed: 1, or "
                "distribution = 'torchrun'"
            )
        if self.distribution == "torchrun" and self.world_size == 1:
            raise ValueError(
                "distribution is 'torchrun' for one process, allowed: processes or instance_count "
                "above 1, or no distribution"
            )
