"""How a training job ended without a model, and what follows, in one table.

What the machine did is no evidence about the arm; what the arm's program did is, and so is memory
or time that ran out in all its jobs and in none of the baseline's. The launcher starts a training
as often as the table says. Whatever ended a baseline's job, that job fails.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

ARM, MACHINE, NEED = "arm", "machine", "need"


@dataclass(frozen=True)
class Ending:
    """One way in which a job ends without a model."""

    name: str
    attempts: int
    """How often a training is started within one job; once where a job has several machines."""
    about: str
    """ARM: the arm cannot be trained. MACHINE: nothing. NEED: ARM where all jobs of the arm ended
    so and none of the baseline's, else MACHINE."""


EXCEPTION = Ending("exception", 1, ARM)
EXIT_STATUS = Ending("exit status", 1, ARM)
WRONG_CODE = Ending("wrong code", 2, ARM)
KILLED = Ending("killed", 2, MACHINE)
TERMINATED = Ending("terminated", 2, MACHINE)
NO_MEMORY = Ending("out of memory", 2, NEED)
NO_GPU_MEMORY = Ending("out of GPU memory", 2, NEED)
TIME_LIMIT = Ending("time limit", 1, NEED)
NO_EVIDENCE = Ending("no evidence", 1, ARM)
WRONG_ARITHMETIC = Ending("wrong arithmetic", 1, ARM)
NOT_MEASURED = Ending("not measured", 1, MACHINE)

ENDINGS: Mapping[str, Ending] = {
    each.name: each for each in list(globals().values()) if isinstance(each, Ending)
}

_GPU_MEMORY = re.compile(
    r"CUDA out of memory|cuda\.OutOfMemoryError|torch\.OutOfMemoryError|CUDNN_STATUS_ALLOC_FAILED"
    r"|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED"
)
_MEMORY = re.compile(r"^[\w.]*MemoryError\b|can't allocate memory|Cannot allocate memory")


def of_signal(number: int, memory_ran_out: bool) -> Ending:
    """How a process ended that this signal killed; `memory_ran_out`: the kernel killed something
    for memory meanwhile."""
    # The last comes from the C library, which found its heap damaged.
    if number in (signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT):
        return WRONG_CODE
    if number == signal.SIGKILL:
        return NO_MEMORY if memory_ran_out else KILLED
    return TERMINATED


def of_exception(text: str) -> Ending | None:
    """How a process ended whose last words are `NAME: MESSAGE`; None where they are not."""
    if _GPU_MEMORY.search(text):
        return NO_GPU_MEMORY
    if _MEMORY.search(text):
        return NO_MEMORY
    return EXCEPTION if re.match(r"[A-Za-z_][\w.]*: ", text) else None


def killed_for_memory(root: str = "/") -> int:
    """How often the kernel has killed a process for memory, in this control group or on this
    machine; 0 where nobody counts."""
    for path in ("sys/fs/cgroup/memory.events", "proc/vmstat"):
        try:
            text = Path(root, path).read_text()
        except OSError:
            continue
        found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        if found is not None:
            return int(found[1])
    return 0
