"""Processor cores for jobs: a Training job never shares its cores with another job.

Training jobs measure time, so each one gets physical cores of its own. Processing jobs share
cores among themselves. The promise is kept by one lock file per core, exclusive for Training and
shared for Processing, so it holds between all executions of one home on this machine, and the
kernel frees the cores of a runner that dies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from compilegate.local.jobs.leases.locks import Lease, try_lock

_SYSFS = Path("/sys/devices/system/cpu")

Core = tuple[int, ...]
"""The CPU ids of one physical core, ascending."""


def available_cpus() -> frozenset[int]:
    """The CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def physical_cores(cpus: Collection[int], sysfs: Path = _SYSFS) -> tuple[Core, ...]:
    """`cpus` grouped by physical core; each CPU is a core of its own where this is not known."""
    allowed = set(cpus)
    return tuple(sorted({tuple(sorted(_siblings(cpu, sysfs) & allowed)) for cpu in allowed}))


def _siblings(cpu: int, sysfs: Path) -> set[int]:
    path = sysfs / f"cpu{cpu}" / "topology" / "thread_siblings_list"
    try:
        return {cpu, *_parse_cpu_list(path.read_text(encoding="ascii"))}
    except (OSError, ValueError):
        return {cpu}


def _parse_cpu_list(text: str) -> set[int]:
    """The ids in the kernel's notation, such as `0-3,8`."""
    ids: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        ids.update(range(int(first), int(last or first) + 1))
    return ids


@dataclass(frozen=True)
class CoreLease(Lease):
    """Cores that a job holds until `release`."""

    cores: tuple[Core, ...]

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPU ids of all cores, for the job's affinity."""
        return tuple(cpu for core in self.cores for cpu in core)


class CorePool:
    """The cores that one execution may use, in competition with other executions."""

    def __init__(self, cores: Sequence[Core], lock_folder: Path) -> None:
        lock_folder.mkdir(parents=True, exist_ok=True)
        self.cores = tuple(cores)
        self._lock_folder = lock_folder

    def acquire_exclusive(self, count: int) -> CoreLease | None:
        """`count` cores that nobody else uses, or None when there are not as many right now."""
        return self._acquire(self.cores, fcntl.LOCK_EX, at_least=count, at_most=count)

    def acquire_shared(self, count: int) -> CoreLease | None:
        """Up to `count` cores that no Training job uses, or None when it uses them all."""
        # From the other end than exclusive leases, so that the two kinds seldom meet.
        backwards = tuple(reversed(self.cores))
        return self._acquire(backwards, fcntl.LOCK_SH, at_least=1, at_most=count)

    def _acquire(
        self, cores: Sequence[Core], kind: int, *, at_least: int, at_most: int
    ) -> CoreLease | None:
        held: dict[Core, IO[bytes]] = {}
        for core in cores:
            if len(held) == at_most:
                break
            file = self._try_lock(core, kind)
            if file is not None:
                held[core] = file
        lease = CoreLease(tuple(held.values()), tuple(sorted(held)))
        if len(held) >= at_least:
            return lease
        lease.release()
        return None

    def _try_lock(self, core: Core, kind: int) -> IO[bytes] | None:
        # Executions may see different CPUs of one core; its lowest id on this machine names it.
        name = min(_siblings(core[0], _SYSFS))
        return try_lock(self._lock_folder / f"core-{name}.lock", kind)
