"""The arithmetic of a training step: float32, or bfloat16 by autocast."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager

import torch


def autocast(precision: str, device: torch.device) -> ContextManager[Any]:
    """The context in which a step's forward pass runs; `precision` is "fp32" or "bf16"."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
