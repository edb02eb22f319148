"""How a training job ended without a model, and what follows. One table for all who ask.

What the machine did is no evidence about the arm. What an arm's program did is, and so is memory or
time that ran out in every job of the arm and in none of the baseline's: then it is the arm's need.

| | |
|---|---|
| launcher | how often a training is started within one job |
| gate | `arm.failed`, a refusal; or `evidence.lost`, inconclusive |
| posture | moves by a refusal, and not at all by what is lost |
| targets | a job that recorded its failure ended well for the service; here it is never cached |

A job of the baseline that ends so fails, whatever ended it: there is no model to fall back to.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

BAD_CODE = (signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT)
"""Signals of machine code that is wrong, or made for another processor; the last comes from the C
library, which found its heap damaged."""

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
    says: str
    """For people, after what happened."""


EXCEPTION = Ending("exception", 1, ARM, "The same program on the same data raises it again.")
EXIT_STATUS = Ending("exit status", 1, ARM, "The script ended itself.")
WRONG_CODE = Ending(
    "wrong code", 2, ARM, "Started again without compiled code from the cache, it died again."
)
KILLED = Ending("killed", 2, MACHINE, "Something outside of the training killed it.")
TERMINATED = Ending("terminated", 2, MACHINE, "Something outside of the training ended it.")
NO_MEMORY = Ending("out of memory", 2, NEED, "The machine's memory ran out.")
NO_GPU_MEMORY = Ending("out of GPU memory", 2, NEED, "The GPU's memory ran out.")
TIME_LIMIT = Ending("time limit", 1, NEED, "It was ended before the job's time limit.")
NO_EVIDENCE = Ending("no evidence", 1, ARM, "The script ended as if all was well.")
WRONG_ARITHMETIC = Ending("wrong arithmetic", 1, ARM, "The job ended after the parity probe.")
NOT_MEASURED = Ending(
    "not measured", 1, MACHINE, "The training went on, and its measurement failed."
)

ENDINGS: Mapping[str, Ending] = {
    each.name: each
    for each in (
        *(EXCEPTION, EXIT_STATUS, WRONG_CODE, KILLED, TERMINATED),
        *(NO_MEMORY, NO_GPU_MEMORY, TIME_LIMIT, NO_EVIDENCE),
        *(WRONG_ARITHMETIC, NOT_MEASURED),
    )
}

_GPU_MEMORY = re.compile(
    r"CUDA out of memory|cuda\.OutOfMemoryError|torch\.OutOfMemoryError|CUDNN_STATUS_ALLOC_FAILED"
    r"|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED"
)
_MEMORY = re.compile(r"^[\w.]*MemoryError\b|can't allocate memory|Cannot allocate memory")


def of_signal(number: int, memory_ran_out: bool) -> Ending:
    """How a process ended that this signal killed; `memory_ran_out` says whether the kernel killed
    something because memory ran out meanwhile."""
    if number in BAD_CODE:
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
    group = Path(root, "sys/fs/cgroup/memory.events")
    for path in (group, Path(root, "proc/vmstat")):
        try:
            found = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
        except OSError:
            continue
        if found is not None:
            return int(found[1])
    return 0
