"""Runs the training of a job in a child process, and answers for every way in which that can end.

A compiler that generates native code can end the process with a signal, and the kernel or a person
can kill it, which no ``except`` sees. The parent imports no torch and does not die with it. By the
table of `compilegate.job.endings` it starts the training again, or gives the reason: to the
platform, or to the evidence where the request says that a failure is recorded. A job that recorded
its failure ends well, so that the baseline is released.

The child's output passes through, requests to stop reach it, and it is ended at a deadline.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Callable, List, Mapping, Optional, Sequence, Tuple

from compilegate.job import endings, names
from compilegate.job.cache import discard
from compilegate.job.errors import killed_by, report_failure
from compilegate.job.launch.failure import FailureNote, read_note
from compilegate.job.launch.printed_metrics import PrintedMetrics
from compilegate.job.launch.torchrun import torchrun_command
from compilegate.job.machine.world import host_rank, hosts

_STARTED = time.monotonic()
SECONDS_KEPT = 120.0
"""What is kept of the job's time limit for evidence and output, or a quarter of a short one."""
SECONDS_TO_END = 20.0
"""What a process has to end by itself at its deadline, before it is killed."""
SECONDS_TO_READ = 5.0
"""What the script leaves running may hold its output open; nobody waits for that."""
MOST_REMEMBERED = 20_000
LONGEST_LINE = 65_536
"""Bytes. What has no end by then is searched for metrics in pieces."""

_EXCEPTION = re.compile(r"^(?:\[rank\d+\]: )?([A-Za-z_][\w.]*: \S.*)$", re.MULTILINE)
"""The last line of a traceback, also where torchrun says whose it is."""
_OURS = re.compile(r"^compilegate\.[\w.]+Error: ")
"""Before what is already a sentence for the person who can mend it."""


@dataclass(frozen=True)
class Failure:
    """A training that left no model."""

    reason: str
    """One sentence."""
    ending: endings.Ending
    attempts: Tuple[str, ...]
    """How earlier starts of it within this job ended."""


@dataclass(frozen=True)
class Launch:
    """What is started, and what to make of its end."""

    program: Sequence[str]
    """A script, or ``-m MODULE``, and its arguments."""
    without_evidence: str
    """The reason, where it ends well and leaves no evidence."""
    environment: Mapping[str, str]
    """The child's."""
    processes: Optional[int] = None
    """Started by torchrun on each machine; None for one process without it."""
    record: Optional[Callable[[Failure], None]] = None
    """Makes a failure evidence; without it the failure ends the job."""
    conclude: Optional[Callable[[PrintedMetrics, Tuple[str, ...]], None]] = None
    """Writes the evidence of a script that only prints its metrics, from these and from how earlier
    starts of it ended."""


def supervise(launch: Launch) -> int:
    """Run the training to its end; returns the exit status for this process."""
    stop_requests = StopRequests()
    earlier: Tuple[str, ...] = ()
    while True:
        printed = None if launch.conclude is None else PrintedMetrics.declared(os.environ)
        ended, noted = _run(launch, stop_requests, printed, earlier)
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
            if launch.conclude is not None and printed is not None and _leads():
                launch.conclude(printed, earlier)
            return 0
        if failure.ending is endings.WRONG_CODE:
            _discard_compiled_code()
        if len(earlier) + 1 >= failure.ending.attempts or len(hosts(os.environ)) > 1:
            return _give_up(launch, failure, 1 if noted is not None else ended.exit_status or 1)
        earlier = (*earlier, failure.ending.name)
        print(f"{failure.reason}; the training is started again", file=sys.stderr, flush=True)
        _clear()


def _give_up(launch: Launch, failure: Failure, status: int) -> int:
    """Say why, for good: to the platform, which shows it of a job that fails, and to the evidence
    where it is recorded."""
    report_failure(failure.reason, os.environ)
    if launch.record is None:
        return status
    if _leads():
        launch.record(failure)
    return 0


def _failure(
    launch: Launch, ended: _Ended, noted: Optional[FailureNote], earlier: Tuple[str, ...]
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
        if launch.conclude is not None or _left_what_it_should():
            return None
        ending, reason = endings.NO_EVIDENCE, launch.without_evidence
    if earlier:
        before = " and ".join(earlier)
        reason = f"{reason} (attempt {len(earlier) + 1}; before, it ended by: {before})"
    return Failure(reason, ending, earlier)


def _left_what_it_should() -> bool:
    """Whether there is evidence, which the first machine writes, or a profile in its place."""
    output = Path(os.environ[names.OUTPUT_DATA_VARIABLE])
    wanted = [output / names.EVIDENCE_FOLDER / names.EVIDENCE_FILE]
    if os.environ.get(names.PROFILE_VARIABLE):
        wanted.append(output / names.PROFILE_FOLDER / names.PROFILE_FILE)
    return not _leads() or any(path.is_file() for path in wanted)


def _leads() -> bool:
    """Whether this is the first of the job's machines."""
    return host_rank(os.environ) == 0


def _discard_compiled_code() -> None:
    """Remove the archives that a process may have loaded its code from, so that the next one
    compiles anew."""
    archives = os.environ.get(names.COMPILE_CACHE_VARIABLE)
    for archive in discard(Path(archives)) if archives else ():
        print(f"compile cache: {archive} was removed: its code may be why", flush=True)


def _clear() -> None:
    """Remove what an ended training left of a model and of evidence; checkpoints stay."""
    shutil.rmtree(
        Path(os.environ[names.OUTPUT_DATA_VARIABLE]) / names.EVIDENCE_FOLDER, ignore_errors=True
    )
    model = os.environ.get(names.MODEL_VARIABLE)
    for path in Path(model).iterdir() if model and Path(model).is_dir() else ():
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


# One start of the training.


class StopRequests:
    """Requests to stop that reach this process from now on, passed on to the one that it waits for.

    Made before a child is started: one that came in between would end this process alone, and leave
    the child running with its output open.
    """

    def __init__(self) -> None:
        self._received: List[int] = []
        self._child: Optional[subprocess.Popen[bytes]] = None
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._receive)

    @property
    def first(self) -> int:
        """The signal that came first; 0 where none did."""
        return self._received[0] if self._received else 0

    def pass_on_to(self, child: subprocess.Popen[bytes]) -> None:
        """Send it those that came, and those that come."""
        missed, self._child = list(self._received), child
        for number in missed:
            child.send_signal(number)

    def _receive(self, number: int, _frame: Optional[FrameType]) -> None:
        self._received.append(number)
        if self._child is not None:
            self._child.send_signal(number)


@dataclass(frozen=True)
class _Ended:
    """How a training's process ended."""

    status: int
    """As subprocess has it: negative for a signal that killed it."""
    exception: str
    """The last exception that it raised, in one line; empty where it printed none."""
    overdue: bool
    """Whether it was ended at its deadline."""
    memory_ran_out: bool
    """Whether the kernel killed something because memory ran out meanwhile."""

    @property
    def ending(self) -> Optional[endings.Ending]:
        """None where it ended as if all was well."""
        if self.overdue:
            return endings.TIME_LIMIT
        if self.status < 0:
            return endings.of_signal(-self.status, self.memory_ran_out)
        if self.status:
            return endings.of_exception(self.exception) or endings.EXIT_STATUS
        return None

    @property
    def exit_status(self) -> int:
        """As a shell has it."""
        return self.status if self.status >= 0 else 128 - self.status

    @property
    def sentence(self) -> str:
        if self.overdue:
            return "the training was ended shortly before the job's time limit"
        last = f": {self.exception}" if self.exception else ""
        if self.status < 0:
            return f"the training was {killed_by(-self.status)}{last}"
        return f"the training ended with exit status {self.status}{last or '; its log says more'}"


def _run(
    launch: Launch,
    stop_requests: StopRequests,
    printed: Optional[PrintedMetrics],
    earlier: Tuple[str, ...],
) -> Tuple[_Ended, Optional[FailureNote]]:
    """Run the training once: how it ended, and the note of the process that failed.

    Where metrics are to be caught, all of its output is searched; it is stopped when they turn out
    to be wrong.
    """
    killed_before = endings.killed_for_memory()
    environment = {**launch.environment, names.JOB_STARTED_VARIABLE: str(time.monotonic())}
    if earlier:
        environment[names.EARLIER_ATTEMPTS_VARIABLE] = ",".join(earlier)
    with tempfile.TemporaryDirectory(prefix="training-") as folder:
        note = Path(folder) / "failure.json"
        child = subprocess.Popen(
            _command(launch),
            env={**environment, names.FAILURE_NOTE_VARIABLE: str(note)},
            stdout=None if printed is None else subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        stop_requests.pass_on_to(child)
        outputs = [_Output(child, child.stderr, sys.stderr.buffer, printed)]
        if printed is not None:
            outputs.append(_Output(child, child.stdout, sys.stdout.buffer, printed))
        overdue = _ended_at_deadline(child)
        for output in outputs:
            output.wait()
        noted = read_note(note)
    ended = _Ended(
        child.returncode,
        outputs[0].exception(),
        overdue=overdue and not stop_requests.first,
        memory_ran_out=endings.killed_for_memory() > killed_before,
    )
    return ended, noted


def _command(launch: Launch) -> List[str]:
    if launch.processes is None:
        return [sys.executable, *launch.program]
    first, *rest = launch.program
    program = ["--module" if first == "-m" else first, *rest]
    return torchrun_command(launch.processes, program, os.environ)


def _ended_at_deadline(child: subprocess.Popen[bytes]) -> bool:
    """Wait for its end. It is ended some time before the job's limit, at which the platform would
    fail the whole execution: True."""
    limit = os.environ.get(names.TIME_LIMIT_VARIABLE)
    seconds = None
    if limit:
        deadline = _STARTED + float(limit) - min(SECONDS_KEPT, float(limit) / 4)
        seconds = max(0.0, deadline - time.monotonic())
    try:
        child.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        child.terminate()
    try:
        child.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    return True


class _Output:
    """A stream of the child's, passed on as it comes, searched for metrics, with its end
    remembered."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        stream: Optional[IO[bytes]],
        onward: IO[bytes],
        printed: Optional[PrintedMetrics],
    ) -> None:
        self._child, self._printed = child, printed
        self._end = self._line = b""
        self._reader = threading.Thread(target=self._pass_on, args=(stream, onward), daemon=True)
        self._reader.start()

    def _pass_on(self, stream: IO[bytes], onward: IO[bytes]) -> None:
        for chunk in iter(lambda: os.read(stream.fileno(), 65536), b""):
            onward.write(chunk)
            onward.flush()
            self._end = (self._end + chunk)[-MOST_REMEMBERED:]
            if self._printed is not None:
                self._search(self._printed, chunk)
        if self._printed is not None:
            self._printed.read(self._line)

    def _search(self, printed: PrintedMetrics, chunk: bytes) -> None:
        *lines, self._line = (self._line + chunk).split(b"\n")
        if len(self._line) > LONGEST_LINE:
            lines.append(self._line)
            self._line = b""
        for line in lines:
            printed.read(line)
        if printed.fault is not None:  # a script whose metrics cannot be used need not go on
            self._child.terminate()

    def wait(self) -> None:
        """Until all of it was read."""
        self._reader.join(SECONDS_TO_READ)

    def exception(self) -> str:
        """The last exception in it that a script raised, in one line."""
        found = _EXCEPTION.findall(self._end.decode(errors="replace"))
        return _OURS.sub("", found[-1]) if found else ""
