"""Several processes train one model: each takes its share of every batch, gradients are averaged.

A step of N processes computes what one process computes on the N shares together: the seed decides
the order of the examples for all, shares are equal, and so the mean of the shares' gradients is the
gradient of the whole.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Iterator

import torch
import torch.distributed

from compilegate.job.machine.world import SEED_LIMIT, World

Forward = Callable[..., Any]

_PEER_GONE = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "remote process exited",
)


@contextlib.contextmanager
def joined(world: World, device: torch.device) -> Iterator[None]:
    """Meet the other processes: NCCL between GPUs, gloo between CPUs. Nothing for one alone."""
    if world.alone:
        yield
        return
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def lost_peer(error: Exception) -> bool:
    """Whether it says no more than that another process was gone, as gloo and NCCL say it."""
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _PEER_GONE)


def averaging_gradients(model: Any, forward: Forward, world: World) -> Forward:
    """`forward`, whose backward pass leaves every process with the mean gradient.

    All processes train from the first one's weights.
    """
    if world.alone:
        return forward
    replica: Forward = torch.nn.parallel.DistributedDataParallel(_Replica(model, forward))
    return replica


def mean_loss(loss: torch.Tensor, world: World) -> float:
    """The mean of the processes' losses: that of the whole batch. One that is not finite makes it
    so in every process, and all stop in the same step."""
    if world.alone:
        return loss.item()
    total = loss.detach().clone()
    torch.distributed.all_reduce(total)
    return total.item() / world.size


def average_through_host(
    parameters: Iterable[torch.nn.Parameter], loss: float, world: World
) -> float:
    """Replace each gradient by its mean over all processes; returns the mean of their losses.

    For gradients on a device that this process has to itself: they are averaged in host memory.
    """
    gradients = {each: each.grad.cpu() for each in parameters if each.grad is not None}
    together = torch.cat([*(each.flatten() for each in gradients.values()), torch.tensor([loss])])
    torch.distributed.all_reduce(together)
    together /= world.size
    *means, mean = torch.split(together, [*(each.numel() for each in gradients.values()), 1])
    for (parameter, gradient), averaged in zip(gradients.items(), means):
        parameter.grad = averaged.view_as(gradient).to(parameter.device)
    return float(mean)


def seed_dropout(seed: int, world: World) -> None:
    """From here on each process draws random numbers of its own, as rows of one batch do. The
    first goes on as one process alone would."""
    if not world.first:
        torch.manual_seed(seed + world.rank * SEED_LIMIT)


class _Replica(torch.nn.Module):
    """What averages gradients wants a module; what is compiled is the model alone, so that the
    parity probe can call the same code in one process."""

    def __init__(self, model: Any, forward: Forward) -> None:
        super().__init__()
        self.model = model
        self._forward = forward

    def forward(self, **batch: Any) -> Any:
        return self._forward(**batch)
