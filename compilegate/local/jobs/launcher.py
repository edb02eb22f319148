"""Starts a job through the program `process.py`, keeps its log, and says how it ended."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

from compilegate.local.jobs.printed import LineReader

_PROGRAM = Path(__file__).with_name("process.py")
_TAIL_LINES = 15


@dataclass(frozen=True)
class Bind:
    """A folder of this machine at a path of the job's root; one that it may not write to is at its
    own place."""

    source: Path
    target: str
    may_write: bool = True


@dataclass(frozen=True)
class View:
    """The root that a job sees. What no bind names is this machine's, and read-only."""

    root: Path
    """The folder that becomes the root: what a job makes there, beside the binds, stays here."""
    binds: Sequence[Bind]
    """A folder comes before what lies in it."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files that replace others, by their path in the job's root."""


@dataclass(frozen=True)
class Alias:
    """A short name for a folder for as long as the job runs: the path of a socket has at most 108
    characters, and a shell splits a path at its spaces."""

    name: Path
    folder: Path


def short_name(folder: Path) -> Alias:
    return Alias(Path(tempfile.gettempdir()) / f"job-{secrets.token_hex(6)}", folder)


@dataclass(frozen=True)
class JobCommand:
    argv: Sequence[str]
    working_directory: str
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

    def launcher_argv(self) -> list[str]:
        """How `process.py` is started. The environment, which may hold secrets, is no argument."""
        options = {k: v for k, v in asdict(self).items() if k not in {"argv", "environment"}}
        text = json.dumps(options, default=str)
        return [sys.executable, "-I", "-S", str(_PROGRAM), text, *self.argv]


@dataclass(frozen=True)
class JobEnd:
    """How a job's first process ended."""

    reason: str
    """exited, stopped, timeout, not started."""
    code: int
    error: str = ""
    last_lines: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        return self.reason == "exited" and self.code == 0


class RunningJob:
    """A handle on one job, from before it starts: `stop` is safe at any time, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lifeline: IO[bytes] | None = None
        self._sent = b""
        """What goes to every process of the job: `s` to stop, `k` to kill."""

    @property
    def stopping(self) -> bool:
        return bool(self._sent)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop the job: SIGTERM to its processes, SIGKILL after its grace period or `at_once`."""
        word = b"k" if at_once else b"s"
        with self._lock:
            self._sent += word
            self._write(word)

    def _write(self, word: bytes) -> None:
        if self._lifeline is not None and word:
            with contextlib.suppress(BrokenPipeError):  # the job has just ended
                self._lifeline.write(word)

    def run(self, command: JobCommand, log: Path, on_line: Callable[[str], None]) -> JobEnd:
        """Run one process of the job to its end; its output is added to `log`, and goes by line to
        `on_line`."""
        last: deque[str] = deque(maxlen=_TAIL_LINES)

        def read_line(line: str) -> None:
            last.append(line)
            on_line(line)

        process = subprocess.Popen(
            command.launcher_argv(),
            env=dict(command.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(command.locks),
            start_new_session=True,  # a Ctrl-C at the terminal reaches the runner only
            bufsize=0,
        )
        lifeline, output, report = process.stdin, process.stdout, process.stderr
        assert lifeline is not None  # noqa: S101  all three are pipes
        assert output is not None  # noqa: S101
        assert report is not None  # noqa: S101
        with process, log.open("ab", buffering=0) as log_file:
            with self._lock:
                self._lifeline = lifeline
                self._write(self._sent)
            try:
                lines = LineReader(read_line)
                while chunk := output.read(65536):
                    log_file.write(chunk)
                    lines.feed(chunk)
                lines.end()
                end = report.read().decode(errors="replace").strip("\n")
            finally:
                with self._lock:
                    self._lifeline = None
        return replace(_job_end(end), last_lines=tuple(last))


def _job_end(report: str) -> JobEnd:
    if not report:  # the launcher itself was killed, and the kernel killed the job with it
        return JobEnd("exited", -signal.SIGKILL)
    reason, *rest = report.split("\t", 2)
    if len(rest) == 2:
        return JobEnd(reason, int(rest[0]), rest[1])
    return JobEnd("not started", 0, f"its launcher failed: {report.splitlines()[-1]}")
