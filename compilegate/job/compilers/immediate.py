"""What compilers share whose steps run on torch's own devices, operation by operation."""

from __future__ import annotations

from typing import Iterable, Iterator

import torch

from compilegate.job.machine.world import World
from compilegate.job.steps.distribution import seed_dropout
from compilegate.job.steps.step import Batch, ImmediateStep, StepParts, TakeStep


class ImmediateSteps:
    """The part of a `Compiler` that concerns steps. The loss is read before the update."""

    compiles_whole_steps = False

    def world(self, launched: World) -> World:
        """The processes that were launched."""
        return launched

    def device(self, host: torch.device) -> torch.device:
        """The model's device."""
        return host

    def seed(self, seed: int, world: World) -> None:
        """Each process has its own dropout masks."""
        seed_dropout(seed, world)

    def batches(self, batches: Iterator[Batch]) -> Iterable[Batch]:
        """The batches as they are: already on the device."""
        return batches

    def stepping(self, parts: StepParts, world: World) -> TakeStep:
        """Takes steps operation by operation."""
        return ImmediateStep(parts, world)
