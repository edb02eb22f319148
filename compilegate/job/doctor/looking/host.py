"""Cores, memory, disk, and who else uses them. Linux tells most; what it does not tell is None."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Optional

from compilegate.job.doctor.facts import Host
from compilegate.job.machine.environment import cores_available, cpu_model

_GROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60
"""What the kernel writes where a group's memory has no limit is of this size."""


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds of processor time since the machine started, all cores together."""

    busy: float
    stolen: float
    total: float
    own: float
    """This process's, with that of its children that have ended."""
    at: float
    """When it was read, by a clock that only goes forward."""

    def steal_since(self, start: ProcessorTime) -> Optional[float]:
        """Share of the time since `start` that the hypervisor gave to others."""
        passed = self.total - start.total
        return None if passed <= 0 else max(0.0, (self.stolen - start.stolen) / passed)

    def others_since(self, start: ProcessorTime) -> Optional[float]:
        """Cores that other processes kept busy since `start`, on average."""
        passed = self.at - start.at
        if passed <= 0:
            return None
        return max(0.0, (self.busy - start.busy) - (self.own - start.own)) / passed


def processor_time() -> Optional[ProcessorTime]:
    """The kernel's count until now; None where there is no /proc/stat."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        ticks = [int(each) / os.sysconf("SC_CLK_TCK") for each in first[1:9]]
        user, nice, system, idle, waiting, interrupts, soft, stolen = ticks
    except (OSError, ValueError):
        return None
    busy = user + nice + system + interrupts + soft
    own = sum(os.times()[:4])
    return ProcessorTime(busy, stolen, busy + idle + waiting + stolen, own, time.monotonic())


def examine_host(since: Optional[ProcessorTime]) -> Host:
    """The host now; steal and others' use since that time."""
    now = processor_time()
    known = _meminfo()
    limit = _number("memory.max", "memory/memory.limit_in_bytes")
    used = _number("memory.current", "memory/memory.usage_in_bytes")
    memory, free = known.get("MemTotal"), known.get("MemAvailable")
    if limit is not None and limit < min(memory or _NO_LIMIT, _NO_LIMIT):
        memory = limit
        if used is not None:
            free = min(free or limit, max(0, limit - used))
    return Host(
        platform=platform.platform(),
        python=platform.python_version(),
        cpu=cpu_model(),
        cores=cores_available(),
        core_quota=_core_quota(),
        memory_bytes=memory,
        free_memory_bytes=free,
        shared_memory_bytes=_size("/dev/shm"),  # noqa: S108 - asked for its size alone
        free_disk_bytes=_free(tempfile.gettempdir()),
        load=_load(),
        steal=None if since is None or now is None else now.steal_since(since),
        others=None if since is None or now is None else now.others_since(since),
    )


def _meminfo() -> Dict[str, int]:
    """/proc/meminfo in bytes."""
    found = {}
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                name, _, value = line.partition(":")
                kilobytes = value.split()
                if len(kilobytes) == 2 and kilobytes[1] == "kB":
                    found[name] = int(kilobytes[0]) * 1024
    except (OSError, ValueError):
        pass  # another system
    return found


def _core_quota() -> Optional[float]:
    """The container's, in either version of control groups."""
    try:
        text = _text(_GROUPS / "cpu.max")
        if text:
            quota, period = text.split()
            return None if quota == "max" else int(quota) / int(period)
        quota = _text(_GROUPS / "cpu/cpu.cfs_quota_us")
        period = _text(_GROUPS / "cpu/cpu.cfs_period_us")
        return int(quota) / int(period) if quota and period and int(quota) > 0 else None
    except (ValueError, ZeroDivisionError):
        return None


def _number(*names: str) -> Optional[int]:
    """What the first of these files of the control group holds; None for no limit."""
    for name in names:
        text = _text(_GROUPS / name)
        if text.isdigit():
            return int(text)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _size(folder: str) -> Optional[int]:
    try:
        return shutil.disk_usage(folder).total
    except OSError:
        return None


def _free(folder: str) -> Optional[int]:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _load() -> Optional[float]:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
