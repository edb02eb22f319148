"""The processes that train together, and this one's place among them.

Each takes an equal share of every batch and gradients are averaged, so a step computes what one
process would on all shares. Needs torch only for what they do together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
import contextlib
import json
from dataclasses import dataclass
from typing import Any, Iterator, Mapping

from compilegate.job.errors import InputError

SEED_LIMIT = 2**31  # a job's seed is below it, so that those of its processes all differ


@dataclass(frozen=True)
class World:
    """One process alone, unless a launcher started several."""

    size: int = 1
    rank: int = 0  # the first one, 0, saves, evaluates and writes the evidence
    local_rank: int = 0  # among those of this machine: the number of its GPU

    @property
    def alone(self) -> bool:
        return self.size == 1

    @property
    def first(self) -> bool:
        return self.rank == 0


ALONE = World()


def world_of(environment: Mapping[str, str]) -> World:
    """This process's place by torchrun's variables; one process alone where it was not started by
    it."""
    if "TORCHELASTIC_RUN_ID" not in environment:
        return ALONE
    return World(*(int(environment[name]) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK")))


def hosts(environment: Mapping[str, str]) -> list[str]:
    """The machines of the job by name, this one's among them; the first one leads."""
    named: list[str] = json.loads(environment.get("SM_HOSTS") or "[]")
    return named or ["localhost"]


def host_rank(environment: Mapping[str, str]) -> int:
    """The number of this machine among them, from 0."""
    named = hosts(environment)
    current = environment.get("SM_CURRENT_HOST")
    return named.index(current) if current in named else 0


_WRAPPERS = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "DeepSpeedEngine": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
}
"""By class, where a wrapper that distributes a model keeps it."""


def unwrapped(model: Any) -> Any:
    """The model itself, without what was put around it to compile or distribute it."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None:
            inner = getattr(model, _WRAPPERS.get(type(model).__name__, ""), None)
        if inner is None:
            return model
        model = inner


@contextlib.contextmanager
def joined(world: World, device: torch.device) -> Iterator[None]:
    """Meet the other processes: NCCL between GPUs, gloo between CPUs. Nothing for one alone."""
    if world.alone:
        yield
        return
    import torch.distributed  # noqa: PLC0415 - programs without torch read this file, too

    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def take_own_gpu(world: World) -> None:
    """Make the process's own GPU torch's current one: NCCL hangs where two share one. Raises
    InputError where the machine has too few."""
    import torch  # noqa: PLC0415 - as above

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


_LAST_STEP = "compilegate last step"


def _shared_store() -> Any:
    """Where torch's processes leave notes for each other; None where they have not met."""
    import torch.distributed  # noqa: PLC0415 - as above

    if not torch.distributed.is_initialized():
        return None
    return torch.distributed.distributed_c10d._get_default_store()


def announce_last_step(step: int) -> None:
    """Tell all processes after which step they end; -1: none before the training's end."""
    store = _shared_store()
    if store is not None:
        store.set(_LAST_STEP, str(step))


def announced_last_step() -> int | None:
    store = _shared_store()
    return int(store.get(_LAST_STEP)) if store is not None and store.check([_LAST_STEP]) else None
