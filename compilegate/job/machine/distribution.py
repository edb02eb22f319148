"""Several processes train one model: each takes an equal share of every batch, and gradients are
averaged, so that a step computes what one process would on all shares together."""

from __future__ import annotations

import contextlib
from typing import Iterable, Iterator

import torch
import torch.distributed

from compilegate.job.errors import InputError
from compilegate.job.machine.world import World


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


def take_own_gpu(world: World) -> None:
    """Make the process's own GPU torch's current one: NCCL hangs where two share one. Raises
    InputError where the machine has too few."""
    if world.alone or not torch.cuda.is_available():
        return
    gpus = torch.cuda.device_count()
    if world.local_rank >= gpus:
        raise InputError(
            f"process {world.local_rank + 1} of this machine needs a GPU of its own, and torch "
            f"sees {gpus}; start {gpus} at most (processes = {gpus} in the arm)"
        )
    torch.cuda.set_device(world.local_rank)


def is_sharded(module: torch.nn.Module) -> bool:
    """Whether parameters, gradients or updates are divided among processes, as by FSDP or
    DeepSpeed, so that one alone cannot compute a step."""
    return any(
        hasattr(each, "unshard") or hasattr(each, "_fsdp_wrapped_module")
        for each in module.modules()
    ) or any(
        hasattr(each, name)
        for each in module.parameters()
        for name in ("placements", "ds_id", "_hp_mapping")
    )


def mean_loss(loss: torch.Tensor, world: World) -> torch.Tensor:
    """The mean of the processes' losses, not waited for. One that is not finite makes it so in all,
    which stop in the same step."""
    total = loss.detach().clone()
    torch.distributed.all_reduce(total)
    return total.double() / world.size


_LAST_STEP = "compilegate last step"


def tell_last_step(step: int) -> None:
    """Tell all processes after which step they end; -1: after none before the training's end."""
    if torch.distributed.is_initialized():
        torch.distributed.distributed_c10d._get_default_store().set(_LAST_STEP, str(step))


def told_last_step() -> int | None:
    """What `tell_last_step` told; None where it did not yet."""
    if not torch.distributed.is_initialized():
        return None
    store = torch.distributed.distributed_c10d._get_default_store()
    return int(store.get(_LAST_STEP)) if store.check([_LAST_STEP]) else None


def average_through_host(
    parameters: Iterable[torch.nn.Parameter], loss: float, world: World
) -> float:
    """Average each gradient over all processes, in host memory; returns the mean loss."""
    gradients = {each: each.grad.cpu() for each in parameters if each.grad is not None}
    together = torch.cat([*(each.flatten() for each in gradients.values()), torch.tensor([loss])])
    torch.distributed.all_reduce(together)
    together /= world.size
    *means, mean = torch.split(together, [*(each.numel() for each in gradients.values()), 1])
    for (parameter, gradient), averaged in zip(gradients.items(), means):
        parameter.grad = averaged.view_as(gradient).to(parameter.device)
    return float(mean)
