"""How a training job ended without a model, and what follows. One table for all who ask.

What the machine did is no evidence about the arm. What an arm's program did is, and so is memory or
time that ran out in every job of the arm and in none of the baseline's: then it is the arm's need.
The launcher starts a training as often as the table says; the gate refuses an arm, or is
inconclusive (`evidence.lost`); the posture moves by a refusal alone; the local target never caches
such a job. A job of the baseline fails, whatever ended it: there is no model to fall back to.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

ARM, MACHINE, NEED = "arm", "machine", "need"


@dataclass(frozen=True)
class Ending:
    """One way in which a job ends without a model."""

    name: str
    attempts: int
    """How often the training is started within one job, until it ends otherwise. Once where a job
    has several machines, which would have to agree on it."""
    about: str
    """ARM: the arm cannot be trained. MACHINE: nothing about the arm. NEED: the first where all
    jobs of the arm ended so and none of the baseline's ever did, else the second."""


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
    """How a process ended that this signal killed; `memory_ran_out` says whether the kernel killed
    something because memory ran out meanwhile."""
    # The last comes from the C library, which found its heap damaged.
    if number in (signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT):
        return WRONG_CODE
    if number == signal.SIGKILL:
        return NO_MEMORY if memory_ran_out else KILLED
    return TERMINATED


def of_exception(text: str) -> Optional[Ending]:
    """How a process ended whose last words these are: `NAME: MESSAGE`; None where they are none."""
    if _GPU_MEMORY.search(text):
        return NO_GPU_MEMORY
    if _MEMORY.search(text):
        return NO_MEMORY
    return EXCEPTION if re.match(r"[A-Za-z_][\w.]*: ", text) else None


def killed_for_memory(root: str = "/") -> int:
    """How often the kernel has killed a process because memory ran out: in this control group where
    it counts that, else on this machine; 0 where nobody counts."""
    for path in ("sys/fs/cgroup/memory.events", "proc/vmstat"):
        try:
            text = Path(root, path).read_text()
        except OSError:
            continue
        found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        if found is not None:
            return int(found[1])
    return 0
