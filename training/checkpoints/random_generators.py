"""The state of every random generator that a training step may draw from."""

from __future__ import annotations

import random
from typing import Any, Dict, Mapping

import numpy as np
import torch


def tensors() -> Dict[str, torch.Tensor]:
    """The generators' states, as far as they are columns of numbers."""
    states = {
        "python": torch.tensor(random.getstate()[1], dtype=torch.int64),
        "numpy": torch.from_numpy(_numpy_state()[1].astype(np.int64)),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        for number, state in enumerate(torch.cuda.get_rng_state_all()):
            states[f"cuda{number}"] = state
    return states


def facts() -> Dict[str, Any]:
    """The rest of them, as JSON."""
    version, _, next_gauss = random.getstate()
    _, _, position, has_gauss, cached_gauss = _numpy_state()
    return {
        "python": [version, next_gauss],
        "numpy": [int(position), int(has_gauss), float(cached_gauss)],
    }


def restore(states: Mapping[str, torch.Tensor], rest: Mapping[str, Any]) -> None:
    """Set every generator to what `tensors` and `facts` gave."""
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
