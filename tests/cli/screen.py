"""The command on a terminal: a pseudo-terminal, and the screen that a person would see on it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyte

from tests.command import COMMAND, PROJECT

PATIENCE_SECONDS = 300.0


class Terminal:
    """A process whose terminal has so many columns and rows."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, columns: int, rows: int):
        self.process = process
        self._master = master
        self._screen = pyte.HistoryScreen(columns, rows, history=1000, ratio=1.0)
        self._stream = pyte.ByteStream(self._screen)
        self.written = b""
        """Everything the process wrote, with the control sequences."""

    @property
    def lines(self) -> list[str]:
        """What is on the screen, without empty lines."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    @property
    def history(self) -> list[str]:
        """What is on the screen, with what has scrolled away above it."""
        above = [
            "".join(line[column].data for column in range(self._screen.columns)).rstrip()
            for line in self._screen.history.top
        ]
        return [line for line in above if line] + self.lines

    def wait_for(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """Read until the screen is as wanted, and return its lines; fail if it never is."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not seen(self.lines):
            assert self._read(deadline), "\n".join(["never seen; the screen:", *self.history])
        return self.lines

    def end(self) -> int:
        """Read to the end; returns the exit status."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE_SECONDS)

    def interrupt(self) -> None:
        """What the terminal sends for Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def _read(self, deadline: float) -> bool:
        """Feed the screen with what came; False at the end."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, "\n".join(["nothing more came; the screen:", *self.history])
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # Linux says so when the last process has closed it
            return False
        self.written += chunk
        self._stream.feed(chunk)
        return bool(chunk)


@contextmanager
def on_terminal(
    *arguments: str | Path,
    cwd: Path,
    columns: int = 80,
    rows: int = 30,
    given: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """Start the command on a terminal of its own."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=_environment(given or {}),
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master, columns, rows)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """This one, as an ordinary terminal has it."""
    unset = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COMPILEGATE_HOME", "CI"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return {**kept, "TERM": "xterm-256color", "PYTHONPATH": str(PROJECT), **given}
