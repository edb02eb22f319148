"""How the process keeps its memory, where steps compute on the host."""

from __future__ import annotations

import ctypes
import sys

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
