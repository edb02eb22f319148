"""Runs the training in a child process, so that even its sudden death is answered for.

A compiler that generates native code can end the process with a signal, which no ``except``
sees. The parent imports no torch and cannot die with it: it gives the reason, to SageMaker or,
under ``on_failure=record``, to the evidence.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

from compilegate.job.errors import killed_by, report_failure
from compilegate.job.launch.failure import (
    REPORTED_FAILURE,
    distrust_compile_cache,
    is_profiled,
    read_note,
)
from compilegate.job.launch.stop_requests import StopRequests
from compilegate.job.launch.torchrun import torchrun_command
from compilegate.job.machine.world import host_rank
from compilegate.job.names import (
    EVIDENCE_FILE,
    EVIDENCE_FOLDER,
    FAILURE_NOTE_VARIABLE,
    JOB_STARTED_VARIABLE,
    OUTPUT_DATA_VARIABLE,
)


@dataclass(frozen=True)
class Launch:
    """What is started, and what to make of its failure."""

    module: str
    arguments: Sequence[str]
    output_data: Path
    """Where it writes its evidence."""
    processes: Optional[int] = None
    """Started by torchrun on each machine; None for one process without it."""
    compile_cache: Optional[Path] = None
    """Where archives of compiled code lie, which may be why a process died."""
    record: Optional[Callable[[str], None]] = None
    """Makes the reason for a failure evidence; without it the failure ends the job."""


def supervise(launch: Launch) -> int:
    """Run ``python -m MODULE ARGUMENTS`` to its end; returns the exit status for this process."""
    with tempfile.TemporaryDirectory(prefix="training-") as folder:
        return _supervise(launch, note=Path(folder) / "failure.json")


def _supervise(launch: Launch, note: Path) -> int:
    stop_requests = StopRequests()
    child = subprocess.Popen(
        _command(launch), env={**_environment(), **_environment_of_several(launch, note)}
    )
    stop_requests.pass_on_to(child)
    status = child.wait()
    if stop_requests.first:
        # The platform or a person ended the job: that says nothing about the arm.
        return 128 + stop_requests.first
    if status == REPORTED_FAILURE:
        return 1
    noted = read_note(note)
    if noted is not None and noted.by_input:
        report_failure(noted.reason, os.environ)
        return 1
    reason = _unexplained_end(status, launch) if noted is None else noted.reason
    if reason is None:
        return 0
    distrust_compile_cache(-status if noted is None else noted.signal, launch.compile_cache)
    if launch.record is None:
        report_failure(reason, os.environ)
        return 1
    if host_rank(os.environ) == 0:
        launch.record(reason)
    return 0


def _command(launch: Launch) -> List[str]:
    if launch.processes is None:
        return [sys.executable, "-m", launch.module, *launch.arguments]
    return torchrun_command(
        launch.processes,
        ["--module", launch.module, *launch.arguments],
        os.environ,
        torchrun="compilegate.job.launch.watched_torchrun",
    )


def _environment_of_several(launch: Launch, note: Path) -> Dict[str, str]:
    """Variables of torchrun's processes; `note` is where one of them tells why it failed."""
    if launch.processes is None:
        return {}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        FAILURE_NOTE_VARIABLE: str(note),
        # Each process would otherwise have a thread on every core.
        "OMP_NUM_THREADS": str(max(1, (cores or 1) // launch.processes)),
    }


def _unexplained_end(status: int, launch: Launch) -> Optional[str]:
    """Why a child's end counts as a failure although it reported none; None when it does not."""
    if status < 0:
        return f"the training process was {killed_by(-status)}"
    if status > 0:
        return f"the training process ended with exit status {status}; its log says more"
    if host_rank(os.environ) > 0:
        return None  # the first machine writes the evidence
    if is_profiled({**os.environ, OUTPUT_DATA_VARIABLE: str(launch.output_data)}):
        return None
    if not (launch.output_data / EVIDENCE_FOLDER / EVIDENCE_FILE).is_file():
        return "the training process ended without writing its evidence"
    return None


def _environment() -> Dict[str, str]:
    """The child's environment: this one's, the time, and where the job's own packages lie."""
    root = str(Path(__file__).resolve().parents[3])
    inherited = os.environ.get("PYTHONPATH")
    path = root if not inherited else root + os.pathsep + inherited
    return {**os.environ, "PYTHONPATH": path, JOB_STARTED_VARIABLE: str(time.monotonic())}
