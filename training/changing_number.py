"""Numbers that are others in every step: the learning rate, the decay of an average."""

from __future__ import annotations

from typing import Union

import torch


def changing_number(value: float, device: torch.device) -> Union[float, torch.Tensor]:
    """The number, in the form in which a step on that device may use it.

    On an XLA device a step's numbers are inputs of its graph, and numbers that happen to be equal
    are one input: a learning rate that meets one of Adam's constants would be another graph, to be
    compiled anew. A tensor, of shape (1,), is always an input of its own.
    """
    if device.type != "xla":
        return value
    return torch.tensor([value]).to(device)
