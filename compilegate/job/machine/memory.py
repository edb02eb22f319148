"""How much memory a job held, and how its process keeps what a step frees."""

from __future__ import annotations

import ctypes
import resource
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h."""
_KEPT_BYTES = 1 << 30


def keep_freed_memory() -> bool:
    """Have malloc keep what a step frees for the next one, up to 1 GiB; whether it does.

    glibc gives large blocks back to the system. A step on a CPU frees its activations and allocates
    as many again, so every step would fault in thousands of pages: a fifth of a small model's step.
    Other C libraries decide for themselves.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    # Setting either one also stops glibc from moving the other by itself.
    return all(mallopt(each, _KEPT_BYTES) == 1 for each in (_TRIM_THRESHOLD, _MMAP_THRESHOLD))


def peak_memory_bytes(device: torch.device) -> int:
    """The most memory the job held: the device's where there is one, else the process's."""
    if device.type == "cuda":
        import torch  # noqa: PLC0415 - the rest of this file does without

        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) * (1 if sys.platform == "darwin" else 1024)  # Linux counts in KiB
