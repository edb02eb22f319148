"""Runs the training in a child process, so that even its sudden death is answered for.

A compiler that generates native code can end the process with a signal, which no ``except``
sees. The parent imports no torch and cannot die with it: it gives the reason, to SageMaker or,
under ``on_failure=record``, to the evidence.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Dict, List, Mapping, Optional, Sequence

from compilegate.job.cache import discard
from compilegate.job.errors import killed_by, report_failure
from compilegate.job.evidence import FOLDER
from compilegate.job.launch.failure_note import launch_command, launch_environment, read_note
from compilegate.job.machine.world import host_rank
from training.arguments import Job
from training.unfinished import record_failure

STARTED_VARIABLE = "COMPILEGATE_JOB_STARTED"
"""Tells the child when its parent started, on the system's monotonic clock."""

REPORTED_FAILURE = 3
"""Exit status of a child that said itself why it failed."""

_BAD_CODE = (signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT)
"""Signals of machine code that is wrong, or made for another processor; the last comes from the C
library, which found its heap damaged."""

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def supervise(job: Job, module: str, arguments: Sequence[str]) -> int:
    """Run ``python -m MODULE ARGUMENTS`` to its end; returns the exit status for this process."""
    with tempfile.TemporaryDirectory(prefix="training-") as folder:
        return _supervise(job, module, arguments, note=Path(folder) / "failure.json")


def _supervise(job: Job, module: str, arguments: Sequence[str], note: Path) -> int:
    child = subprocess.Popen(
        launch_command(job, module, arguments),
        env={**_environment(), **launch_environment(job, note)},
    )
    stopped = _forward_stop_signals(child)
    status = child.wait()
    if stopped:
        # The platform or a person ended the job: that says nothing about the arm.
        return 128 + stopped[0]
    if status == REPORTED_FAILURE:
        return 1
    noted = read_note(note)
    if noted is not None and noted.by_input:
        report_failure(noted.reason, os.environ)
        return 1
    reason = _unexplained_end(status, job) if noted is None else noted.reason
    if reason is None:
        return 0
    died_of = -status if noted is None else noted.signal
    if died_of in _BAD_CODE:
        _distrust_compile_cache(job)
    if job.on_failure == "record":
        if host_rank(os.environ) == 0:
            record_failure(job, reason)
        return 0
    report_failure(reason, os.environ)
    return 1


def seconds_since_start(environment: Mapping[str, str]) -> float:
    """In the child: wall-clock seconds since its parent started it, all imports included."""
    return time.monotonic() - float(environment[STARTED_VARIABLE])


def _unexplained_end(status: int, job: Job) -> Optional[str]:
    """Why a child's end counts as a failure although it reported none; None when it does not."""
    if status < 0:
        return f"the training process was {killed_by(-status)}"
    if status > 0:
        return f"the training process ended with exit status {status}; its log says more"
    if host_rank(os.environ) > 0:
        return None  # the first machine writes the evidence
    if not (job.folders.output_data / FOLDER / "evidence.json").is_file():
        return "the training process ended without writing its evidence"
    return None


def _distrust_compile_cache(job: Job) -> None:
    """Remove what the child may have loaded, so that the next job compiles anew."""
    if job.folders.compile_cache is not None:
        for archive in discard(job.folders.compile_cache):
            print(f"compile cache: {archive} was removed: its code may be why", flush=True)


def _forward_stop_signals(child: subprocess.Popen[bytes]) -> List[int]:
    """Pass requests to stop on to the child; the returned list fills with those that came."""
    received: List[int] = []

    def forward(number: int, _frame: Optional[FrameType]) -> None:
        received.append(number)
        child.send_signal(number)

    for each in _STOP_SIGNALS:
        signal.signal(each, forward)
    return received


def _environment() -> Dict[str, str]:
    """The child's environment: this one's, the `training` package's place, and the time."""
    root = str(Path(__file__).resolve().parents[3])
    inherited = os.environ.get("PYTHONPATH")
    path = root if not inherited else root + os.pathsep + inherited
    return {**os.environ, "PYTHONPATH": path, STARTED_VARIABLE: str(time.monotonic())}
