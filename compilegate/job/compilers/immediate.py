"""What compilers have in common whose steps run on torch's own devices, operation by operation."""

from __future__ import annotations

from typing import Iterable, Iterator

import torch

from compilegate.job.machine.world import World
from compilegate.job.steps.distribution import seed_dropout
from compilegate.job.steps.step import Batch, ImmediateStep, StepParts, TakeStep


class ImmediateSteps:
    """The part of a `Compiler` that is about steps. The loss is looked at before the update."""

    compiles_whole_steps = False

    def world(self, launched: World) -> World:
        """The processes that were launched."""
        return launched

    def device(self, host: torch.device) -> torch.device:
        """Where the model is."""
        return host

    def seed(self, seed: int, world: World) -> None:
        """Dropout of each process its own."""
        seed_dropout(seed, world)

    def batches(self, batches: Iterator[Batch]) -> Iterable[Batch]:
        """The batches as they are: already on the device."""
        return batches

    def stepping(self, parts: StepParts, world: World) -> TakeStep:
        """Takes steps as they are written."""
        return ImmediateStep(parts, world)
