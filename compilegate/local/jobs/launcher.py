"""Starts a job through `process.py`, keeps its log and says how it ended."""

from __future__ import annotations

import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

from compilegate.local.jobs.view import View

_PROGRAM = Path(__file__).with_name("process.py")
_TAIL_LINES = 15
_LINE_CHARACTERS = 2000
# A line that does not end is passed on in pieces, for a job may never end one.
_UNENDED_BYTES = 1 << 16

JobEndReason = Literal["exited", "stopped", "timeout", "not started"]

_REPORT = re.compile(
    r"(?P<reason>exited|stopped|timeout|not started)\t(?P<code>-?\d+)\t(?P<error>.*)", re.DOTALL
)


@dataclass(frozen=True)
class Alias:
    """A short name without spaces for a folder, for as long as the job runs."""

    name: Path
    folder: Path


def short_name(folder: Path) -> Alias:
    """A name that nobody else has."""
    return Alias(Path(tempfile.gettempdir()) / f"job-{secrets.token_hex(6)}", folder)


@dataclass(frozen=True)
class JobCommand:
    """What to start, where, with which environment and on which CPUs."""

    argv: Sequence[str]
    working_directory: str
    """As the job sees it."""
    environment: Mapping[str, str]
    cpus: Sequence[int]
    max_seconds: float
    grace_seconds: float
    """Between SIGTERM and SIGKILL when the job is stopped."""
    alias: Alias | None = None
    view: View | None = None
    """The job's own root; it has this machine's if there is none."""
    locks: Sequence[int] = ()
    """Open files whose locks last until nothing is left of the job, even if this process dies."""


@dataclass(frozen=True)
class JobEnd:
    """How a job's first process ended."""

    reason: JobEndReason
    code: int
    """Exit code; negative for a signal."""
    error: str
    """Why it was not started, if it was not."""
    last_lines: tuple[str, ...]

    @property
    def succeeded(self) -> bool:
        return self.reason == "exited" and self.code == 0


class RunningJob:
    """A handle on one job, from before it starts: `stop` is safe at any time, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lifeline: IO[bytes] | None = None
        self.stopping = False

    def stop(self) -> None:
        """Stop the job: SIGTERM to its processes, SIGKILL after its grace period."""
        with self._lock:
            self.stopping = True
            if self._lifeline is not None:
                self._lifeline.close()

    def run(self, command: JobCommand, log: Path, on_line: Callable[[str], None]) -> JobEnd:
        """Run the job to its end; its output is added to `log`, and goes by line to `on_line`."""
        process = subprocess.Popen(
            _launcher_argv(command),
            env=dict(command.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(command.locks),
            start_new_session=True,  # a Ctrl-C at the terminal reaches the runner only
            bufsize=0,
        )
        lifeline, output, report = _pipes(process)
        with process, log.open("ab", buffering=0) as log_file:
            with self._lock:
                self._lifeline = lifeline
                if self.stopping:
                    lifeline.close()
            lines = _LineReader(on_line)
            while chunk := output.read(65536):
                log_file.write(chunk)
                lines.feed(chunk)
            lines.end()
            end = report.read()
            with self._lock:
                self._lifeline = None
        return _job_end(end, tuple(lines.last))


def _launcher_argv(command: JobCommand) -> list[str]:
    alias, view, folder = command.alias, command.view, command.working_directory
    return [
        *(sys.executable, "-I", "-S", str(_PROGRAM)),
        ",".join(map(str, command.cpus)),
        str(command.max_seconds),
        str(command.grace_seconds),
        ",".join(map(str, command.locks)),
        *(("", "") if alias is None else (str(alias.name), str(alias.folder))),
        "" if view is None else view.told(),
        folder,
        *command.argv,
    ]


class _LineReader:
    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""
        self.last: deque[str] = deque(maxlen=_TAIL_LINES)

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._emit(line)
        if len(self._rest) > _UNENDED_BYTES:
            self.end()

    def end(self) -> None:
        if self._rest:
            self._emit(self._rest)
            self._rest = b""

    def _emit(self, raw: bytes) -> None:
        # A progress bar overwrites itself: what a terminal would show last is the line.
        line = raw.decode(errors="replace").rstrip("\r").rpartition("\r")[2][:_LINE_CHARACTERS]
        self.last.append(line)
        self._on_line(line)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise AssertionError("the launcher was started without its pipes")
    return process.stdin, process.stdout, process.stderr


def _job_end(report: bytes, last_lines: tuple[str, ...]) -> JobEnd:
    text = report.decode(errors="replace").strip("\n")
    match = _REPORT.fullmatch(text)
    if match is None and text:
        return JobEnd("not started", 0, f"its launcher failed: {text.splitlines()[-1]}", last_lines)
    if match is None:
        # The launcher itself was killed, and the kernel killed the job with it.
        return JobEnd("exited", -signal.SIGKILL, "", last_lines)
    reason = cast(JobEndReason, match["reason"])
    return JobEnd(reason, int(match["code"]), match["error"], last_lines)
