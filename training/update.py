"""What becomes of the gradients of a step: clipped, and AdamW's update at the schedule's rate."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

import torch

from training.arguments import Recipe
from training.plan import Plan
from training.schedule import rate_factor


class WeightUpdate:
    """Updates a model's weights from their gradients, step by step of a plan."""

    def __init__(self, model: Any, recipe: Recipe, plan: Plan) -> None:
        self._model = model
        self._recipe = recipe
        self._plan = plan
        self._optimizer = torch.optim.AdamW(
            _parameter_groups(model, recipe.weight_decay), lr=recipe.learning_rate
        )

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        plan = self._plan
        return self._recipe.learning_rate * rate_factor(step, plan.steps, plan.warmup)

    def apply(self, step: int) -> None:
        """Update the weights, and drop the gradients."""
        for group in self._optimizer.param_groups:
            group["lr"] = self.rate(step)
        if self._recipe.gradient_clip:
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._recipe.gradient_clip)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def tensors(self) -> Dict[str, torch.Tensor]:
        """The optimizer's moments and counters, as PARAMETER.NAME, parameters by number."""
        state = self._optimizer.state_dict()["state"]
        return {
            f"{parameter}.{name}": each
            for parameter, named in state.items()
            for name, each in named.items()
        }

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Set them to what `tensors` gave."""
        state: Dict[int, Dict[str, torch.Tensor]] = {}
        for key, each in tensors.items():
            parameter, _, name = key.partition(".")
            state.setdefault(int(parameter), {})[name] = each
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": state, "param_groups": groups})


def _parameter_groups(model: Any, weight_decay: float) -> List[Dict[str, Any]]:
    """Weight decay on matrices only: biases and normalisation weights have one dimension."""
    parameters = [each for each in model.parameters() if each.requires_grad]
    return [
        {"params": [each for each in parameters if each.dim() > 1], "weight_decay": weight_decay},
        {"params": [each for each in parameters if each.dim() <= 1], "weight_decay": 0.0},
    ]
