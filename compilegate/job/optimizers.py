"""The optimizer of a training step: AdamW, the scaler of losses in fp16, the learning rate."""

from __future__ import annotations

from typing import Any

import torch

from compilegate.job.machine.numerics import xla_operations


def loss_scaler(precision: str, device: torch.device) -> Any | None:
    if precision != "fp16":
        return None
    if device.type == "xla":
        return xla_operations().grad_scaler()
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type)
    return torch.cuda.amp.GradScaler()  # SageMaker's images with torch 1


def adamw(
    groups: list[dict[str, Any]], learning_rate: float, device: torch.device
) -> torch.optim.Optimizer:
    """AdamW, fused where torch has that for the device (on a CPU since 2.4): ten small operations a
    parameter are a tenth of a small model's step."""
    if device.type == "xla":
        optimizer: torch.optim.Optimizer = xla_operations().adamw(groups, learning_rate)
        return optimizer
    if device.type in ("cpu", "cuda") and hasattr(torch, "get_autocast_dtype"):  # since 2.4 as well
        return torch.optim.AdamW(groups, lr=learning_rate, fused=True)
    return torch.optim.AdamW(groups, lr=learning_rate)


def changing_number(value: float, device: torch.device) -> float | torch.Tensor:
    """A number that differs from step to step, such as the learning rate, as a step on that device
    may use it. XLA makes numbers that happen to be equal one input, and so another graph; a tensor
    of shape (1,) is always an input of its own."""
    return torch.tensor([value]).to(device) if device.type == "xla" else value
