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
from typing import IO, Self, TypeVar

from compilegate.job.files import try_lock
from compilegate.job.names import VISIBLE_GPUS_VARIABLE

_SYSFS = Path("/sys/devices/system/cpu")
_DRIVER = Path("/proc/driver/nvidia/gpus")
"""The driver's list of GPUs that this system, or this container, may use."""
_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Numbers mean what they mean to nvidia-smi; CUDA by itself counts from the fastest on."""
_WITH_GPUS = re.compile(r"ml\.(p|g|gr)\d")

Core = tuple[int, ...]
"""The CPU ids of one physical core, ascending."""
_Thing = TypeVar("_Thing", bound=Hashable)


@dataclass(frozen=True)
class Lease:
    """What a job holds until `release`."""

    files: tuple[IO[bytes] | socket.socket, ...]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open files: whoever inherits them holds the lease as well."""
        return tuple(file.fileno() for file in self.files)

    def release(self) -> None:
        """Give back what is held."""
        for file in self.files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.release()


class _Pool:
    """Things of this machine that one execution, the `holder`, leases in competition with others:
    each has a lock file in a folder, with the names of those who hold it."""

    def __init__(self, folder: Path, holder: str) -> None:
        self._folder, self._holder = folder, holder
        self._refused_by: set[str] = set()

    @property
    def refused_by(self) -> frozenset[str]:
        """The other executions that stood in the way of the latest lease."""
        return frozenset(self._refused_by)

    def _take(
        self, named: Mapping[_Thing, str], at_least: int, at_most: int, *, shared: bool = False
    ) -> dict[_Thing, IO[bytes]] | None:
        """The first things that are free, with their locked files; None where there are too few.
        `named` has the lock of each."""
        held: dict[_Thing, IO[bytes]] = {}
        self._refused_by.clear()
        for thing, name in named.items():
            if len(held) == at_most:
                break
            file = self._lock(name, shared=shared)
            if file is not None:
                held[thing] = file
        if len(held) >= at_least:
            return held
        for file in held.values():
            file.close()
        return None

    def _lock(self, name: str, *, shared: bool) -> IO[bytes] | None:
        """The open file, locked; None where somebody else holds it."""
        path = self._folder / f"{name}.lock"
        file = try_lock(path)
        if file is not None:  # nobody else has it: the names are of those who had it before
            file.truncate(0)
        if shared:
            if file is not None:
                file.close()
            file = try_lock(path, shared=True)
        if file is None:
            names = path.read_text(encoding="ascii", errors="replace").split()
            self._refused_by |= {*names} - {self._holder}
            return None
        with contextlib.suppress(OSError):  # a full disk costs a name, not the lock
            os.write(file.fileno(), f"{self._holder}\n".encode())
        return file


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


class CorePool(_Pool):
    """The cores that an execution may use."""

    def __init__(self, cores: Sequence[Core], lock_folder: Path, holder: str = "") -> None:
        super().__init__(lock_folder, holder)
        self.cores = tuple(cores)
        # Executions may see different CPUs of one core; its lowest id on this machine names it.
        self._names = {core: f"core-{min(_siblings(core[0], _SYSFS))}" for core in cores}

    def acquire_exclusive(self, count: int) -> CoreLease | None:
        """`count` cores that nobody else uses, or None when there are not as many right now."""
        return _core_lease(self._take(self._names, count, count))

    def acquire_shared(self, count: int) -> CoreLease | None:
        """Up to `count` cores that no Training job uses, or None when it uses them all."""
        # From the other end than exclusive leases, so that the two kinds seldom meet.
        backwards = dict(reversed(self._names.items()))
        return _core_lease(self._take(backwards, 1, count, shared=True))


def _core_lease(held: Mapping[Core, IO[bytes]] | None) -> CoreLease | None:
    return None if held is None else CoreLease(tuple(held.values()), tuple(sorted(held)))


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


@dataclass(frozen=True)
class GpuLease(Lease):
    """GPUs that a job holds until `release`."""

    names: tuple[str, ...]
    variables: Mapping[str, str]
    """Has the job see these and no others; empty on a machine without any."""


class GpuPool(_Pool):
    """The GPUs that an execution may use."""

    def __init__(self, names: Sequence[str], lock_folder: Path, holder: str = "") -> None:
        """`names` are those that CUDA_VISIBLE_DEVICES takes: numbers, or UUIDs."""
        super().__init__(lock_folder, holder)
        self._names = {name: f"gpu-{re.sub(r'[^A-Za-z0-9.-]', '_', name)}" for name in names}

    def acquire(self, count: int) -> GpuLease | None:
        """`count` GPUs that nobody else uses, or None when there are not as many right now; an
        empty lease on a machine without any."""
        if not self._names:
            return GpuLease((), (), {})
        held = self._take(self._names, count, count)
        if held is None:
            return None
        seen = {VISIBLE_GPUS_VARIABLE: ",".join(held), **_ORDER}
        return GpuLease(tuple(held.values()), tuple(held), seen)


@dataclass(frozen=True)
class PortLease(Lease):
    """A port of this machine at which the processes of one job meet."""

    number: int


def lease_port() -> PortLease:
    """A port that nobody else is given.

    Its socket is bound and does not listen, so that the job can bind it too: servers set
    SO_REUSEADDR. Only Linux allows that; elsewhere the port is one that was free a moment ago.
    """
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("", 0))
    number: int = bound.getsockname()[1]
    if sys.platform == "linux":
        return PortLease((bound,), number)
    bound.close()
    return PortLease((), number)
