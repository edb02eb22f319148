"""A training step: its parts, and the order in which they are taken where operations run at once.

`compilegate.job.compilers.xla.step` has the other order, of devices that trace a step and execute
it at its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Protocol

import torch

from compilegate.job.errors import NonFiniteLossError
from compilegate.job.machine.world import World
from compilegate.job.steps.distribution import averaging_gradients, mean_loss
from compilegate.job.steps.precision import autocast

Batch = Dict[str, torch.Tensor]
"""The tensors of one step, by the names under which the model takes them."""

TakeStep = Callable[[int, Batch], float]
"""Takes the step of that number (from 0) with that batch; returns its loss. Raises
NonFiniteLossError for one that is NaN or infinite."""


class Update(Protocol):
    """What a program makes of the gradients of a step."""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer, for what averages its gradients over processes."""

    def allocate(self) -> None:
        """Give the optimizer its state now, as its first step would."""

    def backward(self, loss: torch.Tensor) -> None:
        """Leave the gradients of the loss with the parameters."""

    def apply(self, step: int) -> None:
        """Change the weights, and drop the gradients."""

    def describe(self, step: int) -> str:
        """The step in words, for an error: its number and its learning rate."""


@dataclass(frozen=True)
class StepParts:
    """What every step is made of."""

    model: Any
    forward: Callable[..., Any]
    """The compiler's forward pass; what it returns has a `loss`."""
    update: Update
    precision: str
    device: torch.device

    def loss(self, batch: Batch) -> torch.Tensor:
        """The forward pass."""
        with autocast(self.precision, self.device):
            loss: torch.Tensor = self.forward(**batch).loss
        return loss

    def require_finite(self, loss: float, step: int) -> None:
        """Raises NonFiniteLossError."""
        if not math.isfinite(loss):
            raise NonFiniteLossError(f"the training loss is {loss} in {self.update.describe(step)}")


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
        parts.update.apply(step)
        return value
