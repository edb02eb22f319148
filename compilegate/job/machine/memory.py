"""The most memory that a job held, and how its process keeps what a step frees."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from compilegate.job.evidence.record import MEMORY_OF

if TYPE_CHECKING:
    import torch

OF_DEVICE, OF_PROCESS = MEMORY_OF
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_... of glibc's malloc.h
_KEPT_BYTES = 1 << 30


def keep_freed_memory() -> bool:
    """Have malloc keep what a step frees for the next one, up to 1 GiB; whether it does. glibc
    gives large blocks back, so each step on a CPU would fault in thousands of pages: a fifth of a
    small model's step."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    # Setting either one also stops glibc from moving the other by itself.
    return mallopt is not None and all(
        mallopt(each, _KEPT_BYTES) == 1 for each in (_TRIM_THRESHOLD, _MMAP_THRESHOLD)
    )


def reset_peak_memory(device: torch.device) -> bool:
    """Have the peak count from here on, so that a probe is no part of it; whether it does."""
    if device.type == "cuda":
        import torch  # noqa: PLC0415 - the rest of this file does without

        torch.cuda.reset_peak_memory_stats(device)
        return True
    return device.type == "cpu" and reset_process_peak()


def reset_process_peak() -> bool:
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True


def peak_memory(device: torch.device | None) -> tuple[int | None, str | None]:
    """The most bytes that the job held, and whose: the GPU's, or the process's where nothing else
    computes; None for other devices."""
    if device is not None and device.type == "cuda":
        import torch  # noqa: PLC0415 - as above

        return int(torch.cuda.max_memory_allocated(device)), OF_DEVICE
    if device is None or device.type == "cpu":
        return process_peak(), OF_PROCESS
    return None, None


def process_peak() -> int:
    # Not getrusage on Linux: its ru_maxrss starts at the size of the process that started this one,
    # so that a small job of a large launcher would report the launcher's memory.
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10  # others count in KiB


def free_memory() -> int | None:
    """The bytes that this process can still take, of the machine or within the container's limit;
    None where unknown."""
    room = []
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                room.append(int(line.split()[1]) * 1024)
    for folder, limit, used, cached in (  # either version of control groups
        ("", "memory.max", "memory.current", "file "),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "cache "),
    ):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            most, now, kinds = (
                Path("/sys/fs/cgroup", folder, name).read_text(encoding="ascii")
                for name in (limit, used, "memory.stat")
            )
            files = next(line.split()[1] for line in kinds.splitlines() if line.startswith(cached))
            room.append(max(int(most) - int(now) + int(files), 0))  # cached files give way
    return min(room, default=None)
