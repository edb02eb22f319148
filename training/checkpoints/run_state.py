"""What must be restored for a run to continue as if it had not been interrupted.

The weights, the optimizer's moments, the average, and every random generator's state. The data
order needs nothing: it follows from the seed and the number of the step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping

import numpy as np
import torch

from training.checkpoints.file import Checkpoint
from training.update import WeightAverage, WeightUpdate


@dataclass(frozen=True)
class RunState:
    """The parts of a run that change from step to step."""

    model: Any
    update: WeightUpdate
    average: WeightAverage

    def capture(self, measured: Mapping[str, Any]) -> Checkpoint:
        """The state after the last step, and what the job has measured. Tensors on the CPU are not
        copied."""
        numbers = {
            name
            for name, each in measured.items()
            if isinstance(each, list) and not any(isinstance(entry, str) for entry in each)
        }
        parts: Mapping[str, Mapping[str, torch.Tensor]] = {
            "model": self._model_tensors(),
            "optimizer": self.update.tensors(),
            "average": {str(number): each for number, each in enumerate(self.average.tensors())},
            "random": _generator_tensors(),
            "measured": {name: _column(measured[name]) for name in numbers},
        }
        tensors = {
            f"{part}.{name}": each.detach().cpu()
            for part, named in parts.items()
            for name, each in named.items()
        }
        facts = {
            "measured": {name: each for name, each in measured.items() if name not in numbers},
            "average_updates": self.average.updates,
            "random": _generator_facts(),
        }
        return Checkpoint(tensors, facts)

    @torch.no_grad()
    def restore(self, checkpoint: Checkpoint) -> Dict[str, Any]:
        """Bring everything back, in place. Returns what the job has measured."""
        parts = _by_part(checkpoint.tensors)
        facts = checkpoint.facts
        for name, own in self._model_tensors().items():
            own.copy_(parts["model"][name])
        self.update.restore(parts["optimizer"])
        kept = parts.get("average", {})
        self.average.restore(
            [kept[str(number)] for number in range(len(kept))], int(facts["average_updates"])
        )
        _restore_generators(parts["random"], facts["random"])
        columns = {name: each.tolist() for name, each in parts["measured"].items()}
        return {**facts["measured"], **columns}

    def _model_tensors(self) -> Dict[str, torch.Tensor]:
        # Each once, even if two names share one: the file holds no tensor twice.
        saved = self.model.state_dict().keys()
        buffers = {name: each for name, each in self.model.named_buffers() if name in saved}
        return {**dict(self.model.named_parameters()), **buffers}


def _column(numbers: List[float]) -> torch.Tensor:
    """A column of what was measured, one number for each step."""
    whole = all(isinstance(each, int) for each in numbers)
    return torch.tensor(numbers, dtype=torch.int64 if whole else torch.float64)


def _by_part(tensors: Mapping[str, torch.Tensor]) -> Dict[str, Dict[str, torch.Tensor]]:
    parts: Dict[str, Dict[str, torch.Tensor]] = {}
    for name, each in tensors.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = each
    return parts


def _generator_tensors() -> Dict[str, torch.Tensor]:
    """The states of every random generator that a step may draw from, as columns of numbers."""
    states = {
        "python": torch.tensor(random.getstate()[1], dtype=torch.int64),
        "numpy": torch.from_numpy(_numpy_state()[1].astype(np.int64)),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        for number, state in enumerate(torch.cuda.get_rng_state_all()):
            states[f"cuda{number}"] = state
    return states


def _generator_facts() -> Dict[str, Any]:
    """The rest of them, as JSON."""
    version, _, next_gauss = random.getstate()
    _, _, position, has_gauss, cached_gauss = _numpy_state()
    return {
        "python": [version, next_gauss],
        "numpy": [int(position), int(has_gauss), float(cached_gauss)],
    }


def _restore_generators(states: Mapping[str, torch.Tensor], rest: Mapping[str, Any]) -> None:
    """Set every generator to what `_generator_tensors` and `_generator_facts` gave."""
    version, next_gauss = rest["python"]
    random.setstate((version, tuple(states["python"].tolist()), next_gauss))
    position, has_gauss, cached_gauss = rest["numpy"]
    keys = states["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, position, has_gauss, cached_gauss))
    torch.set_rng_state(states["torch"])
    if torch.cuda.is_available():
        devices = range(torch.cuda.device_count())
        torch.cuda.set_rng_state_all([states[f"cuda{number}"] for number in devices])


def _numpy_state() -> Any:
    return np.random.get_state(legacy=True)
