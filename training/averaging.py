"""A moving average of the weights: the model that is evaluated and saved.

The average forgets the noise of the last few batches. Which examples near the decision boundary
a seed gets right is then less of a matter of chance, and fewer seeds are needed to compare arms.
"""

from __future__ import annotations

from typing import List, Sequence

import torch

from training.changing_number import changing_number


class WeightAverage:
    """Exponential moving average of a model's parameters."""

    def __init__(self, model: torch.nn.Module, decay: float) -> None:
        """`decay` is between 0, which is no averaging, and below 1."""
        self._model = model
        self._decay = decay
        self._updates = 0
        self._average: List[torch.Tensor] = []
        if decay > 0:
            self._average = [parameter.detach().clone() for parameter in model.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights of the model as they are now into the average."""
        if not self._average:
            return
        # A short run would otherwise be dominated by the random weights it started from.
        decay = min(self._decay, (1 + self._updates) / (10 + self._updates))
        self._updates += 1
        current = [parameter.detach() for parameter in self._model.parameters()]
        if current[0].device.type == "xla":
            self._update_traced(current, decay)
            return
        torch._foreach_mul_(self._average, decay)
        torch._foreach_add_(self._average, current, alpha=1 - decay)

    def _update_traced(self, current: Sequence[torch.Tensor], decay: float) -> None:
        kept = changing_number(decay, current[0].device)
        taken = changing_number(1 - decay, current[0].device)
        for own, now in zip(self._average, current):
            own.mul_(kept).add_(now * taken)

    @property
    def updates(self) -> int:
        """How often weights were taken in."""
        return self._updates

    def tensors(self) -> List[torch.Tensor]:
        """The average of each parameter; none without averaging."""
        return list(self._average)

    @torch.no_grad()
    def restore(self, tensors: Sequence[torch.Tensor], updates: int) -> None:
        """Set it to what `tensors` and `updates` were."""
        for own, kept in zip(self._average, tensors):
            own.copy_(kept)
        self._updates = updates

    @torch.no_grad()
    def apply(self) -> None:
        """Replace the model's weights by their average, at the end of training."""
        for parameter, average in zip(self._model.parameters(), self._average):
            parameter.copy_(average)
