"""Updates the weights from a step's gradients: clipping, AdamW at the schedule's rate, and the
moving average of the weights."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

import torch

from compilegate.job import adamw, changing_number, loss_scaler
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength, rate_factor


class WeightAverage:
    """A moving average of the weights: the model that is evaluated and saved.

    The average forgets the noise of the last few batches. Which examples near the decision
    boundary a seed gets right is then less a matter of chance, and fewer seeds are needed to
    compare arms.
    """

    def __init__(self, model: torch.nn.Module, decay: float) -> None:
        """`decay` is at least 0, which is no averaging, and below 1."""
        self._model = model
        self._decay = decay
        self.updates = 0
        self.tensors: List[torch.Tensor] = []  # one for each parameter; empty without averaging
        if decay > 0:
            self.tensors = [parameter.detach().clone() for parameter in model.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights of the model as they are now into the average."""
        if not self.tensors:
            return
        # A short run would otherwise be dominated by the random weights it started from.
        decay = min(self._decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        current = [parameter.detach() for parameter in self._model.parameters()]
        device = current[0].device
        if device.type == "xla":
            old, new = changing_number(decay, device), changing_number(1 - decay, device)
            for own, now in zip(self.tensors, current):
                own.mul_(old).add_(now * new)
        elif hasattr(torch, "_foreach_lerp_"):  # a quarter of the time of the two below
            torch._foreach_lerp_(self.tensors, current, 1 - decay)
        else:
            torch._foreach_mul_(self.tensors, decay)
            torch._foreach_add_(self.tensors, current, alpha=1 - decay)

    @torch.no_grad()
    def restore(self, tensors: Sequence[torch.Tensor], updates: int) -> None:
        """Set it to what `tensors` and `updates` were."""
        for own, saved in zip(self.tensors, tensors):
            own.copy_(saved)
        self.updates = updates

    @torch.no_grad()
    def apply(self) -> None:
        """Replace the model's weights by their average, at the end of training."""
        for parameter, average in zip(self._model.parameters(), self.tensors):
            parameter.copy_(average)


class WeightUpdate:
    """Updates a model's weights from their gradients, and their average, step by step of a run."""

    def __init__(self, model: Any, hyperparameters: Hyperparameters, length: RunLength) -> None:
        self.average = WeightAverage(model, hyperparameters.averaging)
        self._parameters = list(model.parameters())
        self._hyperparameters = hyperparameters
        self._length = length
        self._device = device = self._parameters[0].device
        groups = _parameter_groups(self._parameters, hyperparameters.weight_decay)
        self._optimizer = adamw(groups, hyperparameters.learning_rate, device)
        self._scaler = loss_scaler(hyperparameters.precision, device)

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        length = self._length
        return self._hyperparameters.learning_rate * rate_factor(step, length.steps, length.warmup)

    def describe(self, step: int) -> str:
        """Where in the run the step was, for an error."""
        epoch = step // self._length.steps_per_epoch + 1
        return f"(epoch {epoch}) at learning rate {self.rate(step):.3g}"

    def allocate(self) -> None:
        """Give the optimizer its moments now, as its first step would.

        A step that allocates them is a graph of its own: compiled whole, it would take as long to
        compile as the graph of all later steps, and serve once.
        """
        if self._scaler is not None:
            return  # its first step allocates more than these
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
        """Update the weights, then their average, and drop the gradients."""
        for group in self._optimizer.param_groups:
            rate = self.rate(step)
            # Without `capturable` the optimizer computes with numbers on the host.
            group["lr"] = changing_number(rate, self._device) if group["capturable"] else rate
        if self._scaler is not None:
            self._scaler.unscale_(self._optimizer)
        if self._hyperparameters.gradient_clip:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._hyperparameters.gradient_clip)
        if self._scaler is None:
            self._optimizer.step()
        else:  # leaves out an update whose gradients overflowed, and scales less from then on
            self._scaler.step(self._optimizer)
            self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)
        self.average.update()

    def tensors(self) -> Dict[str, torch.Tensor]:
        """The optimizer's moments and counters, as PARAMETER.NAME, parameters by number; and the
        state of the loss scaler, if there is one, as `scaler.NAME`."""
        tensors = {
            f"{parameter}.{name}": each
            for parameter, named in self._optimizer.state_dict()["state"].items()
            for name, each in named.items()
        }
        scaler = {} if self._scaler is None else self._scaler.state_dict()
        for name, value in scaler.items():
            tensors[f"scaler.{name}"] = torch.tensor(value, dtype=torch.float64)
        return tensors

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


def _parameter_groups(parameters: Sequence[Any], weight_decay: float) -> List[Dict[str, Any]]:
    """Weight decay on matrices only: biases and normalisation weights have one dimension."""
    trained = [each for each in parameters if each.requires_grad]
    return [
        {"params": [each for each in trained if each.dim() > 1], "weight_decay": weight_decay},
        {"params": [each for each in trained if each.dim() <= 1], "weight_decay": 0.0},
    ]
