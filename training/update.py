"""What becomes of the gradients of a step: clipped, and AdamW's update at the schedule's rate."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

import torch

from compilegate.job.steps.precision import loss_scaler
from training.changing_number import changing_number
from training.data.batches import Plan
from training.recipe import Recipe, rate_factor

_FUSED = {"cuda": (2, 0), "cpu": (2, 4)}
"""The torch release that fused AdamW, by device."""


class WeightUpdate:
    """Updates a model's weights from their gradients, step by step of a plan."""

    def __init__(self, model: Any, recipe: Recipe, plan: Plan, *, scaled: bool = True) -> None:
        """Without `scaled`, the gradients are taken as they are, in fp16 too."""
        self._model = model
        self._recipe = recipe
        self._plan = plan
        self._device = device = next(model.parameters()).device
        self._optimizer = _adamw(
            _parameter_groups(model, recipe.weight_decay), recipe.learning_rate, device
        )
        self._scaler = loss_scaler(recipe.precision, device) if scaled else None

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        plan = self._plan
        return self._recipe.learning_rate * rate_factor(step, plan.steps, plan.warmup)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """For what averages its gradients over processes."""
        return self._optimizer

    def allocate(self) -> None:
        """Give the optimizer its moments now, as its first step would.

        A step that makes them is another graph than the later ones: compiled whole, it would take
        as long as they do to compile, and serve once.
        """
        if self._scaler is not None:
            return  # its first step makes more than these
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                if not self._optimizer.state[parameter]:
                    counted_on = parameter.device if group["capturable"] else torch.device("cpu")
                    # From the host: zeros of the device's own would be constants of the graph.
                    zeros = torch.zeros(parameter.shape, dtype=parameter.dtype)
                    self._optimizer.state[parameter] = {
                        "step": torch.zeros(1).to(counted_on),
                        "exp_avg": zeros.to(parameter.device),
                        "exp_avg_sq": zeros.to(parameter.device),
                    }

    def backward(self, loss: torch.Tensor) -> None:
        """Leave the gradients of the loss with the parameters, scaled where the update knows."""
        (loss if self._scaler is None else self._scaler.scale(loss)).backward()

    def apply(self, step: int) -> None:
        """Update the weights, and drop the gradients."""
        for group in self._optimizer.param_groups:
            rate = self.rate(step)
            # Without `capturable` the optimizer computes with numbers on the host.
            group["lr"] = changing_number(rate, self._device) if group["capturable"] else rate
        if self._scaler is not None:
            self._scaler.unscale_(self._optimizer)
        if self._recipe.gradient_clip:
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._recipe.gradient_clip)
        if self._scaler is None:
            self._optimizer.step()
        else:  # leaves out an update whose gradients overflowed, and scales less from then on
            self._scaler.step(self._optimizer)
            self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def tensors(self) -> Dict[str, torch.Tensor]:
        """The optimizer's moments and counters, as PARAMETER.NAME, parameters by number; and how
        the loss is scaled, as `scaler.NAME`, where it is."""
        state = self._optimizer.state_dict()["state"]
        scaler = {} if self._scaler is None else self._scaler.state_dict()
        return {
            **{
                f"{parameter}.{name}": each
                for parameter, named in state.items()
                for name, each in named.items()
            },
            **{
                f"scaler.{name}": torch.tensor(value, dtype=torch.float64)
                for name, value in scaler.items()
            },
        }

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Set them to what `tensors` gave."""
        state: Dict[int, Dict[str, torch.Tensor]] = {}
        scaler: Dict[str, float] = {}
        for key, each in tensors.items():
            parameter, _, name = key.partition(".")
            if parameter == "scaler":
                scaler[name] = each.item()
                continue
            state.setdefault(int(parameter), {})[name] = each
        if self._scaler is not None and scaler:
            counters = {"growth_interval", "_growth_tracker"}
            self._scaler.load_state_dict(
                {name: int(each) if name in counters else each for name, each in scaler.items()}
            )
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": state, "param_groups": groups})


def _adamw(
    groups: List[Dict[str, Any]], learning_rate: float, device: torch.device
) -> torch.optim.Optimizer:
    """AdamW in one pass over each parameter where torch has it for the device; elsewhere the ten
    small operations by which it is written, which are a tenth of a small model's step."""
    if device.type == "xla":
        from compilegate.job.xla import runtime  # noqa: PLC0415 - torch_xla is in few environments

        return runtime.adamw(groups, learning_rate)
    if device.type in _FUSED and _release() >= _FUSED[device.type]:
        return torch.optim.AdamW(groups, lr=learning_rate, fused=True)
    return torch.optim.AdamW(groups, lr=learning_rate)


def _release() -> Tuple[int, ...]:
    return tuple(int(part) for part in str(torch.__version__).split(".")[:2])


def _parameter_groups(model: Any, weight_decay: float) -> List[Dict[str, Any]]:
    """Weight decay on matrices only: biases and normalisation weights have one dimension."""
    parameters = [each for each in model.parameters() if each.requires_grad]
    return [
        {"params": [each for each in parameters if each.dim() > 1], "weight_decay": weight_decay},
        {"params": [each for each in parameters if each.dim() <= 1], "weight_decay": 0.0},
    ]
