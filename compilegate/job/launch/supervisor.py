"""Runs the training of a job in a child process, and answers for every way in which that can end.

A compiler that generates native code can end the process with a signal, and the kernel or a person
can kill it, which no ``except`` sees. The parent imports no torch and does not die with it. By the
table of `compilegate.job.endings` it starts the training again, or gives the reason: to the
platform, or to the evidence where the request says that a failure is recorded. A job that recorded
its failure ends well, so that the baseline is released.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from compilegate.job import endings
from compilegate.job.endings import Ending
from compilegate.job.errors import report_failure
from compilegate.job.launch.failure import (
    FailureNote,
    distrust_compile_cache,
    is_profiled,
    read_note,
)
from compilegate.job.launch.process import Ended, StopRequests, run_training
from compilegate.job.launch.scripts.printed_metrics import PrintedMetrics
from compilegate.job.launch.torchrun import torchrun_command
from compilegate.job.machine.world import host_rank, hosts
from compilegate.job.names import (
    COMPILE_CACHE_VARIABLE,
    EARLIER_ATTEMPTS_VARIABLE,
    EVIDENCE_FILE,
    EVIDENCE_FOLDER,
    FAILURE_NOTE_VARIABLE,
    JOB_STARTED_VARIABLE,
    MODEL_VARIABLE,
    OUTPUT_DATA_VARIABLE,
    TIME_LIMIT_VARIABLE,
)

_STARTED = time.monotonic()
SECONDS_KEPT = 120.0
"""What is kept of the job's time limit for evidence and output, or a quarter of a short one."""


@dataclass(frozen=True)
class Failure:
    """A training that left no model."""

    reason: str
    """One sentence."""
    ending: Ending
    attempts: Tuple[str, ...]
    """How earlier starts of it within this job ended."""


@dataclass(frozen=True)
class Launch:
    """What is started, and what to make of its end."""

    program: Sequence[str]
    """A script, or ``-m MODULE``, and its arguments."""
    without_evidence: str
    """The reason, where it ends well and leaves no evidence."""
    processes: Optional[int] = None
    """Started by torchrun on each machine; None for one process without it."""
    environment: Optional[Mapping[str, str]] = None
    """The child's; None for this process's own."""
    record: Optional[Callable[[Failure], None]] = None
    """Makes a failure evidence; without it the failure ends the job."""
    conclude: Optional[Callable[[Ended, PrintedMetrics, Tuple[str, ...]], None]] = None
    """Writes the evidence of a script that only prints its metrics."""


def supervise(launch: Launch) -> int:
    """Run the training to its end; returns the exit status for this process."""
    stop_requests, earlier = StopRequests(), ()  # type: Tuple[StopRequests, Tuple[str, ...]]
    while True:
        with tempfile.TemporaryDirectory(prefix="training-") as folder:
            note = Path(folder) / "failure.json"
            printed = None if launch.conclude is None else PrintedMetrics.declared(os.environ)
            ended = run_training(
                _command(launch),
                {**_environment(launch), **_told(note, earlier)},
                stop_requests,
                printed=printed,
                deadline=_deadline(),
            )
            noted = read_note(note)
        if stop_requests.first:
            # The platform or a person ended the job: that says nothing about the arm.
            return 128 + stop_requests.first
        fault = noted.reason if noted is not None and noted.by_input else None
        if printed is not None and printed.fault is not None:
            fault = printed.fault
        if fault is not None:  # every arm would fail like that
            report_failure(fault, os.environ)
            return 1
        failure = _failure(launch, ended, noted, earlier)
        if failure is None:
            if launch.conclude is not None and printed is not None and host_rank(os.environ) == 0:
                launch.conclude(ended, printed, earlier)
            return 0
        distrust_compile_cache(failure.ending, _archives())
        if len(earlier) + 1 >= failure.ending.attempts or len(hosts(os.environ)) > 1:
            return _give_up(launch, failure, 1 if noted is not None else ended.exit_status or 1)
        earlier = (*earlier, failure.ending.name)
        print(f"{failure.reason}; the training is started again", file=sys.stderr, flush=True)
        _clear()


def _give_up(launch: Launch, failure: Failure, status: int) -> int:
    """Say why, for good: to the evidence where it is recorded, and to the platform always, which
    shows it of a job that fails."""
    report_failure(failure.reason, os.environ)
    if launch.record is None:
        return status
    if host_rank(os.environ) == 0:
        launch.record(failure)
    return 0


def _failure(
    launch: Launch, ended: Ended, noted: Optional[FailureNote], earlier: Tuple[str, ...]
) -> Optional[Failure]:
    """Why the end of the training is a failure; None where it is none."""
    ending, reason = ended.ending, ended.sentence
    if noted is not None and not ended.overdue:
        reason = noted.reason
        ending = (
            endings.of_signal(noted.signal, ended.memory_ran_out)
            if noted.signal
            else endings.of_exception(reason) or endings.EXCEPTION
        )
    if ending is None:
        # The first machine writes the evidence; a profile, and printed metrics, are none.
        if host_rank(os.environ) > 0 or is_profiled(os.environ) or launch.conclude is not None:
            return None
        if (Path(os.environ[OUTPUT_DATA_VARIABLE]) / EVIDENCE_FOLDER / EVIDENCE_FILE).is_file():
            return None
        ending, reason = endings.NO_EVIDENCE, launch.without_evidence
    if earlier:
        before = " and ".join(earlier)
        reason = f"{reason} (attempt {len(earlier) + 1}; before, it ended by: {before})"
    return Failure(reason, ending, earlier)


def _command(launch: Launch) -> List[str]:
    if launch.processes is None:
        return [sys.executable, *launch.program]
    first, *rest = launch.program
    program = ["--module", *rest] if first == "-m" else list(launch.program)
    watched = "compilegate.job.launch.watched_torchrun"
    return torchrun_command(launch.processes, program, os.environ, torchrun=watched)


def _environment(launch: Launch) -> Dict[str, str]:
    """The child's environment: with where the job's own packages lie, and when it started."""
    given = dict(os.environ if launch.environment is None else launch.environment)
    root = str(Path(__file__).resolve().parents[3])
    inherited = given.get("PYTHONPATH")
    path = root if not inherited else root + os.pathsep + inherited
    return {**given, "PYTHONPATH": path, JOB_STARTED_VARIABLE: str(time.monotonic())}


def _told(note: Path, earlier: Tuple[str, ...]) -> Dict[str, str]:
    """Where a process notes why it failed, and how earlier ones ended."""
    attempts = {EARLIER_ATTEMPTS_VARIABLE: ",".join(earlier)} if earlier else {}
    return {FAILURE_NOTE_VARIABLE: str(note), **attempts}


def _archives() -> Optional[Path]:
    folder = os.environ.get(COMPILE_CACHE_VARIABLE)
    return Path(folder) if folder else None


def _deadline() -> Optional[float]:
    """When the training must have ended, on the monotonic clock: at the job's limit the platform
    would fail the whole execution. None where the job is not told its limit."""
    told = os.environ.get(TIME_LIMIT_VARIABLE)
    if not told:
        return None
    limit = float(told)
    return _STARTED + limit - min(SECONDS_KEPT, limit / 4)


def _clear() -> None:
    """Remove what an ended training left of a model and of evidence; checkpoints stay."""
    shutil.rmtree(Path(os.environ[OUTPUT_DATA_VARIABLE]) / EVIDENCE_FOLDER, ignore_errors=True)
    model = os.environ.get(MODEL_VARIABLE)
    for path in Path(model).iterdir() if model and Path(model).is_dir() else ():
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
