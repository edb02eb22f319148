"""The processes that train together, and this one's place among them. Needs no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Mapping

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
    """What torchrun told this process; one process alone where it was not started by it."""
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


_AROUND = {
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
            inner = getattr(model, _AROUND.get(type(model).__name__, ""), None)
        if inner is None:
            return model
        model = inner
