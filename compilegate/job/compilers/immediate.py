"""What compilers share whose steps run on torch's own devices, operation by operation."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager, Iterable, Optional, Tuple

import torch

from compilegate.job.machine.memory import peak_memory, reset_peak_memory
from compilegate.job.machine.world import World


class ImmediateSteps:
    """The part of a `Compiler` that concerns steps."""

    compiles_whole_steps = False

    @property
    def overwrites_gradients(self) -> bool:
        """Not what runs operation by operation."""
        return False

    def world(self, launched: World) -> World:
        """The processes that were launched."""
        return launched

    def device(self, host: torch.device) -> torch.device:
        """The model's device."""
        return host

    def hardware(self) -> Optional[str]:
        """None: the device is torch's own."""
        return None

    def peak_memory(self, device: torch.device) -> Tuple[Optional[int], Optional[str]]:
        """That of the GPU, as torch counts it, or that of the process."""
        return peak_memory(device)

    def forget_peak_memory(self, device: torch.device) -> bool:
        """Both can."""
        return reset_peak_memory(device)

    def seed(self, seed: int, world: World) -> None:
        """Nothing: steps draw from torch's generators, which are the script's."""

    def batches(self, batches: Iterable[Any]) -> Iterable[Any]:
        """The batches as they are: the script brings them to the device."""
        return batches

    def aside(self) -> ContextManager[None]:
        """Nothing to be left out."""
        return contextlib.nullcontext()

    def end_step(self) -> None:
        """Nothing: operations ran as they were called."""

    def take_step(
        self, step: int, take: Callable[[], Any], update: Optional[Callable[[], Any]]
    ) -> Tuple[Any, None]:
        """Calls both. What is distributed averages gradients in the backward pass."""
        result = take()
        if update is not None:
            update()
        return result, None
