"""Runs a job's training in a child process, and handles every way in which that can end.

Native code can end the process with a signal, and the kernel or a person can kill it. The parent
imports no torch. By the table of `endings` it starts the training again, reports the failure, or
records it as evidence, where the job then succeeds so that the baseline is released. Output passes
through, requests to stop are passed on, and a deadline is kept.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Callable, Iterable, Mapping, Optional, Sequence, Tuple

from compilegate.job import contract, endings
from compilegate.job.errors import killed_by, report_failure
from compilegate.job.evidence import above_one
from compilegate.job.launch.torchrun import read_note, torchrun_command
from compilegate.job.machine.world import host_rank, hosts

_STARTED = time.monotonic()
SECONDS_KEPT = 120.0
"""What is kept of the job's time limit for evidence and output, or a quarter of a short one."""
SECONDS_TO_END = 20.0  # by itself at its deadline, before a process is killed
SECONDS_TO_READ = 5.0
"""What the script leaves running may hold its output open; nobody waits for that."""
MOST_REMEMBERED = 20_000  # bytes of stderr
LONGEST_LINE = 65_536  # bytes; what has no end by then is searched for metrics in pieces

_EXCEPTION = re.compile(r"^(?:\[rank\d+\]: )?([A-Za-z_][\w.]*: \S.*)$", re.MULTILINE)
"""The last line of a traceback, also where torchrun says whose it is."""
_OURS = re.compile(r"^compilegate\.[\w.]+Error: ")  # before what is already a sentence


@dataclass(frozen=True)
class Failure:
    reason: str  # one sentence
    ending: endings.Ending
    attempts: tuple[str, ...]  # how earlier starts of it within this job ended


@dataclass(frozen=True)
class Launch:
    program: Sequence[str]  # a script, or ``-m MODULE``, and its arguments
    without_evidence: str  # the reason, where it ends well and leaves no evidence
    environment: Mapping[str, str]  # the child's
    processes: int | None = None
    """Started by torchrun on each machine; None for one process without it."""
    record: Callable[[Failure], None] | None = None
    """Makes a failure evidence; without it the failure ends the job."""
    conclude: Callable[[PrintedMetrics, tuple[str, ...]], None] | None = None
    """Writes the evidence of a script that only prints its metrics, from these and earlier endings.
    """


def supervise(launch: Launch) -> int:
    """Run the training to its end; returns the exit status for this process."""
    stop_requests = StopRequests()
    leads = host_rank(os.environ) == 0  # the first of the job's machines writes the evidence
    earlier: tuple[str, ...] = ()
    while True:
        printed = None if launch.conclude is None else PrintedMetrics.declared(os.environ)
        ending, reason, by_input = _run(launch, stop_requests, printed, earlier)
        if stop_requests.first:
            # The platform or a person ended the job: that says nothing about the arm.
            return 128 + stop_requests.first
        if ending is None:
            if not leads or _concluded(launch, printed, earlier):
                return 0
            ending, reason = endings.NO_EVIDENCE, launch.without_evidence
        if ending is endings.WRONG_CODE:
            _discard_compiled_code()
        if earlier:
            before = " and ".join(earlier)
            reason = f"{reason} (attempt {len(earlier) + 1}; before, it ended by: {before})"
        again = len(earlier) + 1 < ending.attempts and len(hosts(os.environ)) == 1
        if by_input or not again:
            report_failure(reason, os.environ)  # the platform shows it of a job that fails
            if by_input or launch.record is None:
                return 1
            if leads:
                launch.record(Failure(reason, ending, earlier))
            return 0
        earlier = (*earlier, ending.name)
        print(f"{reason}; the training is started again", file=sys.stderr, flush=True)
        _clear()


def _concluded(launch: Launch, printed: PrintedMetrics | None, earlier: tuple[str, ...]) -> bool:
    """Whether there is evidence, or a profile in its place."""
    if launch.conclude is not None and printed is not None:
        launch.conclude(printed, earlier)
        return True
    output = Path(os.environ[contract.OUTPUT_DATA_VARIABLE])
    evidence = output / contract.EVIDENCE_FOLDER / contract.EVIDENCE_FILE
    return (
        evidence.is_file() or (output / contract.PROFILE_FOLDER / contract.PROFILE_FILE).is_file()
    )


def _discard_compiled_code() -> None:
    """Remove loaded compile-cache archives: the training that crashed may have run their code."""
    archives = os.environ.get(contract.COMPILE_CACHE_VARIABLE)
    for archive in sorted(Path(archives).glob("*.zip")) if archives else ():
        archive.unlink()
        print(f"compile cache: {archive.name} was removed: its code may be why", flush=True)


def _clear() -> None:
    """Remove what an ended training left of a model and of evidence; checkpoints stay."""
    output, model = (
        os.environ[contract.OUTPUT_DATA_VARIABLE],
        os.environ.get(contract.MODEL_VARIABLE),
    )
    shutil.rmtree(Path(output) / contract.EVIDENCE_FOLDER, ignore_errors=True)
    for path in Path(model).glob("*") if model else ():
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


# One start of the training.


class StopRequests:
    """SIGTERM and SIGINT, passed on to the training from the supervisor's first moment."""

    def __init__(self) -> None:
        self.first = 0  # the signal that came first; 0 where none did
        self._child: subprocess.Popen[bytes] | None = None
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._receive)

    def pass_on_to(self, child: subprocess.Popen[bytes]) -> None:
        missed, self._child = self.first, child
        if missed:
            child.send_signal(missed)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self.first = self.first or number
        if self._child is not None:
            self._child.send_signal(number)


_Ended = Tuple[Optional[endings.Ending], str, bool]
"""How one start of the training ended (None: well), the reason, and whether every arm would fail
like that."""


def _run(
    launch: Launch,
    stop_requests: StopRequests,
    printed: PrintedMetrics | None,
    earlier: tuple[str, ...],
) -> _Ended:
    """Run the training once, and stop it where printed metrics turn out to be wrong."""
    killed_before = endings.killed_for_memory()
    command = [sys.executable, *launch.program]
    if launch.processes is not None:
        command = torchrun_command(launch.processes, launch.program, os.environ)
    with tempfile.TemporaryDirectory(prefix="training-") as folder:
        note = Path(folder) / "failure.json"
        environment = {
            **launch.environment,
            contract.JOB_STARTED_VARIABLE: str(time.monotonic()),
            contract.EARLIER_ATTEMPTS_VARIABLE: ",".join(earlier),
            contract.FAILURE_NOTE_VARIABLE: str(note),
        }
        child = subprocess.Popen(
            command,
            env=environment,
            stdout=None if printed is None else subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        stop_requests.pass_on_to(child)
        errors = bytearray()
        streams = [(child.stderr, sys.stderr.buffer, errors)]
        if printed is not None:
            streams.append((child.stdout, sys.stdout.buffer, bytearray()))
        readers = [
            threading.Thread(target=_pass_on, args=(child, printed, *stream), daemon=True)
            for stream in streams
        ]
        for reader in readers:
            reader.start()
        overdue = _ended_at_deadline(child)
        for reader in readers:
            reader.join(SECONDS_TO_READ)
        noted = read_note(note)
    if printed is not None and printed.fault is not None:
        return endings.EXCEPTION, printed.fault, True
    if overdue:
        reason = "the training was ended shortly before the job's time limit"
        return endings.TIME_LIMIT, reason, False
    memory_ran_out = endings.killed_for_memory() > killed_before
    if noted is not None:
        ending = endings.of_exception(noted.reason) or endings.EXCEPTION
        if noted.signal:
            ending = endings.of_signal(noted.signal, memory_ran_out)
        return ending, noted.reason, noted.by_input
    status, exception = child.returncode, _last_exception(errors)
    last = f": {exception}" if exception else ""
    if status < 0:
        reason = f"the training was {killed_by(-status)}{last}"
        return endings.of_signal(-status, memory_ran_out), reason, False
    reason = f"the training ended with exit status {status}{last or '; its log says more'}"
    failed = endings.of_exception(exception) or endings.EXIT_STATUS
    return failed if status else None, reason, False


def _ended_at_deadline(child: subprocess.Popen[bytes]) -> bool:
    """Wait for its end. At the deadline, some time before the platform would fail the whole
    execution, end it: True."""
    limit = os.environ.get(contract.TIME_LIMIT_VARIABLE)
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


def _pass_on(
    child: subprocess.Popen[bytes],
    printed: PrintedMetrics | None,
    stream: IO[bytes],
    onward: IO[bytes],
    end: bytearray,
) -> None:
    """Pass on a stream of the child's to its end; search it for metrics, and keep its `end`."""
    line = b""
    for chunk in iter(lambda: os.read(stream.fileno(), 65536), b""):
        onward.write(chunk)
        onward.flush()
        end += chunk
        del end[:-MOST_REMEMBERED]
        if printed is None:
            continue
        *lines, line = (line + chunk).split(b"\n")
        if len(line) > LONGEST_LINE:
            lines, line = [*lines, line], b""
        for each in lines:
            printed.read(each)
        if printed.fault is not None:  # a script whose metrics cannot be used need not go on
            child.terminate()
    if printed is not None:
        printed.read(line)


def _last_exception(printed: bytearray) -> str:
    """The last exception that a script raised, in one line; empty where there is none."""
    found = _EXCEPTION.findall(printed.decode(errors="replace"))
    return _OURS.sub("", found[-1]) if found else ""


# Metrics caught in what a script prints.

MOST_RECORDED = 50  # values of one metric that the evidence holds
LEAST_INTERVALS = 3  # fewer printed speeds show no steady state
TOO_FEW = (
    "the speed was printed fewer than three times: if it is an average of the whole run, the time "
    "to compile is in it; print the speed of each interval of steps, or time the steps with "
    "compilegate.job (evidence = 'written')"
)
_SLOW = 0.5  # of the later speeds' median: something was compiled in an interval below that


class PrintedMetrics:
    """The values of each metric in the lines that were read, in order."""

    def __init__(self, expressions: Mapping[str, str], percent: Iterable[str] = ()) -> None:
        self._expressions = {name: re.compile(text) for name, text in expressions.items()}
        self._percent = frozenset(percent)
        self.series: dict[str, list[float]] = {}
        self.fault: str | None = None  # why a value is not what it should be, in one sentence

    @classmethod
    def declared(cls, variables: Mapping[str, str]) -> PrintedMetrics | None:
        """Those that the job's environment names; None if there are none."""
        named = {
            name[len(contract.PRINTED_VARIABLE) :]: text
            for name, text in variables.items()
            if name.startswith(contract.PRINTED_VARIABLE)
        }
        return cls(named, variables.get(contract.PERCENT_VARIABLE, "").split()) if named else None

    @property
    def values(self) -> dict[str, float]:
        return {name: values[-1] for name, values in self.series.items()}

    @property
    def recorded(self) -> dict[str, tuple[float, ...]]:
        """All values of each in order, or `MOST_RECORDED` of them with the first and last one."""
        return {name: _thinned(values) for name, values in self.series.items()}

    def read(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        for name, expression in self._expressions.items():
            for found in expression.finditer(text):
                try:
                    printed = float(found.group(1))
                except (TypeError, ValueError):  # the group caught nothing, or what is no number
                    continue
                value = printed / 100 if name in self._percent else printed
                if self.fault is None and above_one(name, value):
                    self.fault = self._fault(name, printed, text.strip())
                self.series.setdefault(name, []).append(value)

    def _fault(self, name: str, printed: float, line: str) -> str:
        expected, remedy = "a fraction of 1 at most", ""
        if name in self._percent:
            expected = "100 at most, since program.percent names it"
        elif printed <= 100:
            remedy = f"put percent = [{name!r}] into [program] if it is printed in per cent, or "
        return (
            f"{name} was printed as {printed:g} (in the line {line[:100]!r}), expected {expected}: "
            f"{remedy}let the expression of program.metrics.{name} catch another number"
        )


def _thinned(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) <= MOST_RECORDED:
        return tuple(values)
    last, count = len(values) - 1, MOST_RECORDED - 1
    return tuple(values[round(last * each / count)] for each in range(MOST_RECORDED))


def printed_speed(values: Sequence[float]) -> float:
    """Samples per second by all printed speeds, stalls included, without the warm-up: the first
    value and later ones as slow as compilation. Of fewer than three the last counts."""
    wrong = [value for value in values if not value > 0]  # NaN too; the gate has its reason
    if wrong:
        return wrong[0]
    if len(values) < LEAST_INTERVALS:
        return values[-1]
    half = len(values) // 2
    slow = _SLOW * statistics.median(values[half:])
    steady_from = next((at for at in range(1, half) if values[at] >= slow), half)
    return statistics.harmonic_mean(values[steady_from:])
