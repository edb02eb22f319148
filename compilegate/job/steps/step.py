"""A training step: its parts, and the order in which they are taken where operations run at once.

`compilegate.job.xla.step` has the other order, of devices that trace a step and execute it
at its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Callable

import torch

from compilegate.job.errors import NonFiniteLossError
from compilegate.job.machine.world import World
from compilegate.job.steps.distribution import averaging_gradients, mean_loss
from compilegate.job.steps.precision import autocast
from training.averaging import WeightAverage
from training.data.batches import Batch, Plan
from training.update import WeightUpdate

TakeStep = Callable[[int, Batch], float]
"""Takes the step of that number (from 0) with that batch; returns its loss. Raises
NonFiniteLossError for one that is NaN or infinite."""


@dataclass(frozen=True)
class StepParts:
    """What every step is made of."""

    model: Any
    forward: Callable[..., Any]
    """The compiler's forward pass."""
    update: WeightUpdate
    average: WeightAverage
    precision: str
    device: torch.device
    plan: Plan

    def loss(self, batch: Batch) -> torch.Tensor:
        """The forward pass."""
        with autocast(self.precision, self.device):
            loss: torch.Tensor = self.forward(**batch).loss
        return loss

    def change(self, step: int) -> None:
        """Update the weights from their gradients, and their average from them."""
        self.update.apply(step)
        self.average.update()

    def require_finite(self, loss: float, step: int) -> None:
        """Raises NonFiniteLossError."""
        if not math.isfinite(loss):
            raise NonFiniteLossError(
                f"the training loss is {loss} in step {step} (epoch "
                f"{step // self.plan.steps_per_epoch + 1}) at learning rate "
                f"{self.update.rate(step):.3g}"
            )


class ImmediateStep:
    """Takes steps whose operations run as they are called: a loss that is not finite updates
    nothing."""

    def __init__(self, parts: StepParts, world: World) -> None:
        forward = averaging_gradients(parts.model, parts.forward, world)
        self._parts = replace(parts, forward=forward)
        self._world = world

    def __call__(self, step: int, batch: Batch) -> float:
        parts = self._parts
        loss = parts.loss(batch)
        value = mean_loss(loss, self._world)
        parts.require_finite(value, step)
        parts.update.backward(loss)
        parts.change(step)
        return value
