"""What the parity probe compared: which parameters, in which precision, and digests that differ
from job to job."""

from __future__ import annotations

import hashlib
from typing import Dict, Iterable, List, Optional, Set

import numpy as np
import torch

from compilegate.job.probes.capture import Compiled
from compilegate.job.probes.variants import GRADIENT, Tensors, unwrapped

SAMPLED = 1024
"""Numbers of a tensor that its digest is of, evenly over it: to fetch a large model from a device
several times would take longer than the comparison."""


class Compared:
    """Keeps count of what was compared, call by call."""

    def __init__(self) -> None:
        self._shown: Dict[int, int] = {}
        """By parameter, how many numbers it has."""
        self._digests: Dict[str, hashlib._Hash] = {}
        self.precisions: List[Optional[str]] = []
        """What eager's calls computed their products in; None where that does not show."""

    def add(self, variant: str, tensors: Tensors) -> None:
        """What a variant computed in one call."""
        digest = self._digests.setdefault(variant, hashlib.sha256())
        for name in sorted(tensors):
            digest.update(f"{name}:{tuple(tensors[name].shape)};".encode())
            digest.update(_sample(tensors[name]).tobytes())

    def add_parameters(self, module: torch.nn.Module, exact: Tensors) -> None:
        """The parameters that had a gradient in that call. One of zero shows nothing: nor does it
        train."""
        for name, parameter in unwrapped(module).named_parameters():
            gradient = exact.get(GRADIENT + name)
            if gradient is not None and id(parameter) not in self._shown and bool(gradient.any()):
                self._shown[id(parameter)] = parameter.numel()

    @property
    def parameters(self) -> int:
        """Numbers in the parameters whose gradients were compared."""
        return sum(self._shown.values())

    def digests(self) -> Dict[str, str]:
        """sha256 by variant, in hexadecimal."""
        return {variant: each.hexdigest() for variant, each in self._digests.items()}


def trained_parameters(compiled: Iterable[Compiled]) -> int:
    """Numbers in the parameters that the functions' modules train; shared ones count once."""
    seen: Set[int] = set()
    count = 0
    for each in compiled:
        for parameter in unwrapped(each.module).parameters():
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                count += parameter.numel()
    return count


def _sample(tensor: torch.Tensor) -> np.ndarray:
    flat = tensor.detach().reshape(-1)
    step = max(flat.numel() // SAMPLED, 1)
    few = flat[::step][:SAMPLED]
    if few.is_complex():
        few = torch.view_as_real(few)
    found: np.ndarray = few.to("cpu", torch.float64).numpy()
    return found
