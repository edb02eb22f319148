"""AdamW as fast as torch has it for a device, and the numbers that change from step to step."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple, Union

import torch

_FUSED = {"cuda": (2, 0), "cpu": (2, 4)}
"""The torch release that fused AdamW, by device."""


def adamw(
    groups: List[Dict[str, Any]], learning_rate: float, device: torch.device
) -> torch.optim.Optimizer:
    """AdamW in one pass over each parameter where torch has it for the device.

    Elsewhere it takes ten small operations a parameter, a tenth of a small model's step.
    """
    if device.type == "xla":
        from compilegate.job.compilers.xla import runtime  # noqa: PLC0415 - torch_xla is in few environments

        return runtime.adamw(groups, learning_rate)
    if device.type in _FUSED and _release() >= _FUSED[device.type]:
        return torch.optim.AdamW(groups, lr=learning_rate, fused=True)
    return torch.optim.AdamW(groups, lr=learning_rate)


def changing_number(value: float, device: torch.device) -> Union[float, torch.Tensor]:
    """A number that differs from step to step, such as the learning rate, in the form in which a
    step on that device may use it.

    On an XLA device a step's numbers are inputs of its graph, and numbers that happen to be equal
    are one input: a learning rate that meets one of Adam's constants would be another graph, to be
    compiled anew. A tensor, of shape (1,), is always an input of its own.
    """
    if device.type != "xla":
        return value
    return torch.tensor([value]).to(device)


def _release() -> Tuple[int, ...]:
    return tuple(int(part) for part in str(torch.__version__).split(".")[:2])
