"""What a job does not share while it runs: its cores, its GPUs, its port.

A Training job measures time, so it has physical cores of its own; Processing jobs share cores among
themselves. Two jobs on one GPU would measure each other, so a job has as many GPUs of this machine
as it starts processes, by CUDA_VISIBLE_DEVICES, and a job whose instance type has none sees none.

Each core and each GPU has a lock file, which counts in all executions of a home; the kernel frees
what a runner held that died. The file names the executions that hold it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from compilegate.document.evaluation import Unresolved
from compilegate.job.names import VISIBLE_GPUS_VARIABLE

_SYSFS = Path("/sys/devices/system/cpu")
_DRIVER = Path("/proc/driver/nvidia/gpus")
"""Where the driver lists those that this system, or this container, may use."""
_LISTING_SECONDS = 20
_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Numbers mean what they mean to nvidia-smi; CUDA by itself counts from the fastest on."""
_WITH_GPUS = re.compile(r"ml\.(p|g|gr)\d")

Core = tuple[int, ...]
"""The CPU ids of one physical core, ascending."""


@dataclass(frozen=True)
class Lease:
    """What a job holds until `release`."""

    files: tuple[IO[bytes], ...]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open lock files: whoever inherits them holds the lease as well."""
        return tuple(file.fileno() for file in self.files)

    def release(self) -> None:
        """Give back what is held."""
        for file in self.files:
            file.close()


class _Locks:
    """Lock files in a folder, each with the names of those who hold it."""

    def __init__(self, folder: Path, holder: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._holder = folder, holder
        self.refused_by: set[str] = set()
        """Who else held what `take` could not lock."""

    def take(self, name: str, *, shared: bool = False) -> IO[bytes] | None:
        """The open file, locked; None where somebody else holds it."""
        file = (self._folder / f"{name}.lock").open("a+b", buffering=0)
        # Whoever has it alone, if only for a moment, removes the names of those who had it before.
        alone = try_lock(file, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):  # a full disk costs a name, not the lock
            if alone:
                file.truncate(0)
                file.write(f"{self._holder}\n".encode())
        if alone and not shared:
            return file
        if shared and try_lock(file, fcntl.LOCK_SH):
            with contextlib.suppress(OSError):
                if self._holder not in _names(file):
                    file.write(f"{self._holder}\n".encode())
            return file
        self.refused_by |= {*_names(file)} - {self._holder}
        file.close()
        return None


def try_lock(file: IO[bytes], kind: int) -> bool:
    """Lock an open file at once, if nobody else holds it; `kind` is one of flock's."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _names(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return file.read().decode("ascii", "replace").split()


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
    """The cores that one execution, the `holder`, may use in competition with others."""

    def __init__(self, cores: Sequence[Core], lock_folder: Path, holder: str = "") -> None:
        self.cores = tuple(cores)
        self._locks = _Locks(lock_folder, holder)

    def acquire_exclusive(self, count: int) -> CoreLease | None:
        """`count` cores that nobody else uses, or None when there are not as many right now."""
        return self._acquire(self.cores, count, count, shared=False)

    def acquire_shared(self, count: int) -> CoreLease | None:
        """Up to `count` cores that no Training job uses, or None when it uses them all."""
        # From the other end than exclusive leases, so that the two kinds seldom meet.
        return self._acquire(tuple(reversed(self.cores)), 1, count, shared=True)

    @property
    def refused_by(self) -> frozenset[str]:
        """The other executions that stood in the way of the latest lease of cores."""
        return frozenset(self._locks.refused_by)

    def _acquire(
        self, cores: Sequence[Core], at_least: int, at_most: int, *, shared: bool
    ) -> CoreLease | None:
        held: dict[Core, IO[bytes]] = {}
        self._locks.refused_by.clear()
        for core in cores:
            if len(held) == at_most:
                break
            file = self._locks.take(_core_name(core), shared=shared)
            if file is not None:
                held[core] = file
        lease = CoreLease(tuple(held.values()), tuple(sorted(held)))
        if len(held) >= at_least:
            return lease
        lease.release()
        return None


def _core_name(core: Core) -> str:
    # Executions may see different CPUs of one core; its lowest id on this machine names it.
    return f"core-{min(_siblings(core[0], _SYSFS))}"


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


class GpuPool:
    """The GPUs that one execution, the `holder`, may use in competition with others."""

    def __init__(self, names: Sequence[str], lock_folder: Path, holder: str = "") -> None:
        """`names` are those that CUDA_VISIBLE_DEVICES takes: numbers, or UUIDs."""
        self.names = tuple(names)
        self._locks = _Locks(lock_folder, holder)

    def acquire(self, count: int) -> GpuLease | None:
        """`count` GPUs that nobody else uses, or None when there are not as many right now; an
        empty lease on a machine without any."""
        if not self.names:
            return GpuLease((), (), {})
        held: dict[str, IO[bytes]] = {}
        self._locks.refused_by.clear()
        for name in self.names:
            if len(held) == count:
                break
            plain = re.sub(r"[^A-Za-z0-9.-]", "_", name)
            file = self._locks.take(f"gpu-{plain}")
            if file is not None:
                held[name] = file
        seen = {VISIBLE_GPUS_VARIABLE: ",".join(held), **_ORDER}
        lease = GpuLease(tuple(held.values()), tuple(held), seen)
        if len(held) == count:
            return lease
        lease.release()
        return None

    @property
    def refused_by(self) -> frozenset[str]:
        """The other executions that stood in the way of the latest lease of GPUs."""
        return frozenset(self._locks.refused_by)


class PortLease:
    """A port of this machine at which the processes of one job meet.

    The socket is bound and does not listen, so that nobody else is given the port, and the job can
    bind it: servers set SO_REUSEADDR. Systems other than Linux do not allow that; there the port is
    one that was free a moment ago.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("", 0))
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self._socket.close()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open socket: whoever inherits it keeps the port."""
        descriptor = self._socket.fileno()
        return () if descriptor < 0 else (descriptor,)

    def release(self) -> None:
        """Let others have it."""
        self._socket.close()
