"""What a job does not share while it runs: its cores, its GPUs, its port.

A Training job measures time, so it has physical cores of its own; Processing jobs share cores among
themselves. Two jobs on one GPU would measure each other, so a job has as many GPUs of this machine
as it starts processes, by CUDA_VISIBLE_DEVICES, and a job whose instance type has none sees none.

Each core and each GPU has a lock file, which counts in all executions of a home; the kernel frees
what a runner held that died. The file names the executions that hold it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Generic, Self, TypeVar

from compilegate.job.contract import VISIBLE_GPUS_VARIABLE
from compilegate.job.files import try_lock

_SYSFS = Path("/sys/devices/system/cpu")
_DRIVER = Path("/proc/driver/nvidia/gpus")
"""The driver's list of GPUs that this system, or this container, may use."""
_WITH_GPUS = re.compile(r"ml\.(p|g|gr)\d")

Core = tuple[int, ...]
"""The CPU ids of one physical core, ascending."""
Thing = TypeVar("Thing", bound=Hashable)


@dataclass(frozen=True)
class Lease(Generic[Thing]):
    """Cores, GPUs or ports that a job holds until `release`."""

    things: tuple[Thing, ...] = ()
    files: tuple[IO[bytes] | socket.socket, ...] = ()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open files: whoever inherits them holds the lease as well."""
        return tuple(file.fileno() for file in self.files)

    def release(self) -> None:
        for file in self.files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.release()


class Pool(Generic[Thing]):
    """What one execution, the `holder`, leases in competition with others: `locks` has the lock
    file of each thing, with the names of those who hold it."""

    def __init__(self, locks: Mapping[Thing, Path], holder: str = "") -> None:
        self._locks, self._holder = locks, holder
        self.refused_by: set[str] = set()
        """The other executions that stood in the way of the latest lease."""

    def acquire(self, count: int, *, shared: bool = False) -> Lease[Thing] | None:
        """`count` things that nobody else uses, or None when fewer are free. With `shared`, up to
        `count` that others may share, or None when all are in exclusive use."""
        held: dict[Thing, IO[bytes]] = {}
        self.refused_by.clear()
        # From the other end than exclusive leases, so that the two kinds seldom meet.
        for thing in reversed(tuple(self._locks)) if shared else self._locks:
            if len(held) == count:
                break
            file = self._lock(self._locks[thing], shared=shared)
            if file is not None:
                held[thing] = file
        if len(held) >= (1 if shared else count):
            return Lease(tuple(each for each in self._locks if each in held), tuple(held.values()))
        for file in held.values():
            file.close()
        return None

    def _lock(self, path: Path, *, shared: bool) -> IO[bytes] | None:
        """The open file, locked; None where somebody else holds it."""
        file = try_lock(path)
        if file is not None:  # nobody else has it: the names are of those who had it before
            file.truncate(0)
        if shared:
            if file is not None:
                file.close()
            file = try_lock(path, shared=True)
        if file is None:
            names = path.read_text(encoding="ascii", errors="replace").split()
            self.refused_by |= {*names} - {self._holder}
            return None
        with contextlib.suppress(OSError):  # a full disk costs a name, not the lock
            os.write(file.fileno(), f"{self._holder}\n".encode())
        return file


def core_pool(cores: Sequence[Core], folder: Path, holder: str = "") -> Pool[Core]:
    """The cores that an execution may use; `folder` has the locks."""
    # Executions may see different CPUs of one core; its lowest id on this machine names it.
    names = {core: min(_siblings(core[0], _SYSFS)) for core in cores}
    return Pool({core: folder / f"core-{name}.lock" for core, name in names.items()}, holder)


def gpu_pool(gpus: Sequence[str], folder: Path, holder: str = "") -> Pool[str]:
    """The GPUs that an execution may use, as CUDA_VISIBLE_DEVICES names them."""
    names = {gpu: re.sub(r"[^A-Za-z0-9.-]", "_", gpu) for gpu in gpus}
    return Pool({gpu: folder / f"gpu-{name}.lock" for gpu, name in names.items()}, holder)


def gpu_variables(gpus: Sequence[str]) -> dict[str, str]:
    """Has a job see these GPUs and no others; their numbers are nvidia-smi's, not CUDA's own."""
    return {VISIBLE_GPUS_VARIABLE: ",".join(gpus), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


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
    ids: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        ids.update(range(int(first), int(last or first) + 1))
    return ids


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
        # As CUDA does: it ignores what comes after a name that is not there.
        if not name or (is_number and not 0 <= int(name) < there) or name in gpus:
            break
        gpus.append(name)
    return tuple(gpus)


def _count() -> int:
    """How many NVIDIA GPUs there are: by the driver's list, or its program where it has none (as
    under Windows)."""
    listed = len(list(_DRIVER.glob("*")))
    program = None if listed else shutil.which("nvidia-smi")
    if program is None:
        return listed
    try:
        found = subprocess.check_output([program, "--list-gpus"], text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return 0  # installed, and no driver that answers
    return sum(line.startswith("GPU ") for line in found.splitlines())


def gpus_wanted(instance_type: str, processes: int) -> int:
    """How many a job on such an instance computes with: one for each of its processes; 0 where the
    instance has none. A type that is none of SageMaker's is this machine."""
    has_none = instance_type.startswith("ml.") and _WITH_GPUS.match(instance_type) is None
    return 0 if has_none else processes


def lease_port() -> Lease[int]:
    """A port at which the processes of one job meet, and that no other job is given.

    Its socket is bound and does not listen, so that the job can bind it too: servers set
    SO_REUSEADDR. Only Linux allows that; elsewhere the port is one that was free a moment ago.
    """
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("", 0))
    number: int = bound.getsockname()[1]
    if sys.platform == "linux":
        return Lease((number,), (bound,))
    bound.close()
    return Lease((number,))
