"""Has compilers compile a small model, each in a process of its own."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Optional

from compilegate.job.doctor.facts import Tried
from compilegate.job.doctor.looking.processes import ask

_SECONDS = 240.0
"""A first compilation on a slow machine; Triton's and XLA's take tens of seconds."""


def tried(label: str, compiler: str, backend: Optional[str], device: str) -> Tried:
    """How it went. `device` is where a job here would compute: cpu or gpu."""
    start = time.monotonic()
    given = [compiler, device, *([] if backend is None else [backend])]
    answer = ask("compilegate.job.doctor.looking.trial_here", _SECONDS, *given)
    found = Tried(label, device, 0.0, error=answer.get("error"))
    return replace(found, seconds=time.monotonic() - start)
