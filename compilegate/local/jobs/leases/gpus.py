"""GPUs for jobs: each has its own, and sees no other.

Two jobs on one GPU would measure each other. A job whose instance has GPUs gets as many of this
machine as it starts processes, by CUDA_VISIBLE_DEVICES; a job of another instance sees none, as it
would see none there. On a machine without GPUs nothing changes. The promise is kept as that of the
cores is, by a lock file for each GPU.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from compilegate.document.evaluation import Unresolved
from compilegate.job.names import VISIBLE_GPUS_VARIABLE
from compilegate.local.jobs.leases.locks import Lease, try_lock

_DRIVER = Path("/proc/driver/nvidia/gpus")
"""Where the driver lists those that this system, or this container, may use."""
_LISTING_SECONDS = 20
_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Numbers mean what they mean to nvidia-smi; CUDA by itself counts from the fastest on."""
_WITH_GPUS = re.compile(r"ml\.(p|g|gr)\d")


def gpus_here(variables: Mapping[str, str], count: int | None = None) -> tuple[str, ...]:
    """The GPUs of this machine, as CUDA_VISIBLE_DEVICES names them, which may itself be among the
    `variables` and name fewer. `count` is how many there are; None asks the driver."""
    there = _count() if count is None else count
    named = variables.get(VISIBLE_GPUS_VARIABLE)
    if named is None or not there:
        return tuple(map(str, range(there)))
    gpus: list[str] = []
    for name in map(str.strip, named.split(",")):
        is_number = re.fullmatch(r"-?\d+", name) is not None
        # As CUDA does: what comes after one that is not there is not looked at.
        if not name or (is_number and not 0 <= int(name) < there) or name in gpus:
            break
        gpus.append(name)
    return tuple(gpus)


def _count() -> int:
    """How many NVIDIA GPUs there are: by the driver's list, or its own program where it has no
    list, as under Windows."""
    listed = len(list(_DRIVER.glob("*")))
    program = None if listed else shutil.which("nvidia-smi")
    if program is None:
        return listed
    try:
        found = subprocess.run(
            [program, "--list-gpus"],
            capture_output=True,
            text=True,
            timeout=_LISTING_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return 0  # installed, and no driver that answers
    return sum(line.startswith("GPU ") for line in found.stdout.splitlines())


def gpus_wanted(instance_type: str | Unresolved, processes: int = 1) -> int:
    """How many a job on such an instance computes with: one for each of its processes; 0 where the
    instance has none. A type that is none of SageMaker's is this machine."""
    on_sagemaker = isinstance(instance_type, str) and instance_type.startswith("ml.")
    if on_sagemaker and _WITH_GPUS.match(str(instance_type)) is None:
        return 0
    return processes


@dataclass(frozen=True)
class GpuLease(Lease):
    """GPUs that a job holds until `release`."""

    names: tuple[str, ...]
    variables: Mapping[str, str]
    """Has the job see these and no others; empty on a machine without any."""

    def part(self, rank: int, hosts: int) -> GpuLease:
        """Those that one of the job's hosts sees."""
        if hosts == 1 or not self.variables:
            return self
        share = len(self.names) // hosts
        names = self.names[rank * share : (rank + 1) * share]
        return replace(self, names=names, variables=_seen(names))


def _seen(names: Iterable[str]) -> dict[str, str]:
    return {VISIBLE_GPUS_VARIABLE: ",".join(names), **_ORDER}


class GpuPool:
    """The GPUs that one execution may use, in competition with other executions."""

    def __init__(self, names: Sequence[str], lock_folder: Path) -> None:
        """`names` are those that CUDA_VISIBLE_DEVICES takes: numbers, or UUIDs."""
        lock_folder.mkdir(parents=True, exist_ok=True)
        self.names = tuple(names)
        self._lock_folder = lock_folder

    def acquire(self, count: int) -> GpuLease | None:
        """`count` GPUs that nobody else uses, or None when there are not as many right now; an
        empty lease on a machine without any."""
        if not self.names:
            return GpuLease((), (), {})
        held: dict[str, IO[bytes]] = {}
        for name in self.names:
            if len(held) == count:
                break
            plain = re.sub(r"[^A-Za-z0-9.-]", "_", name)
            file = try_lock(self._lock_folder / f"gpu-{plain}.lock", fcntl.LOCK_EX)
            if file is not None:
                held[name] = file
        lease = GpuLease(tuple(held.values()), tuple(held), _seen(held))
        if len(held) == count:
            return lease
        lease.release()
        return None
