"""Runs a script in a process of its own: its output passes through, and how it ended is known."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import IO, Mapping, Optional, Sequence

from compilegate.job.errors import killed_by
from compilegate.job.launch.scripts.printed_metrics import Lines, PrintedMetrics, Silence
from compilegate.job.launch.stop_requests import StopRequests

SECONDS_TO_READ = 5.0
"""What the script leaves running may hold its output open; nobody waits for that."""
MOST_REMEMBERED = 20_000

_EXCEPTION = re.compile(r"^(?:\[rank\d+\]: )?([A-Za-z_][\w.]*: \S.*)$", re.MULTILINE)
"""The last line of a traceback, also where torchrun says whose it is."""
_OURS = re.compile(r"^compilegate\.[\w.]+Error: ")
"""Before what is already a sentence for the person who can mend it."""


@dataclass(frozen=True)
class Ended:
    """How a script's process ended."""

    status: int
    """As subprocess has it: negative for a signal that killed it."""
    stopped: int
    """The signal by which the platform or a person asked this process to stop, which says nothing
    of the arm; 0 where nobody did."""
    exception: str
    """The last exception that the script raised, in one line."""
    silence: Silence

    @property
    def signal(self) -> int:
        """What killed it; 0 for one that ended by itself."""
        return max(0, -self.status)

    @property
    def exit_status(self) -> int:
        """As a shell has it."""
        return self.status if self.status >= 0 else 128 + self.signal

    @property
    def sentence(self) -> str:
        """Says how it ended."""
        if self.signal:
            return f"the script was {killed_by(self.signal)}"
        return f"the script ended with exit status {self.status}"


def run_script(
    command: Sequence[str], environment: Mapping[str, str], printed: Optional[PrintedMetrics]
) -> Ended:
    """Run the command to its end. Where metrics are to be caught, all of its output is listened to;
    it is stopped when they turn out to be wrong."""
    stop_requests = StopRequests()
    child = subprocess.Popen(
        list(command),
        env=dict(environment),
        stdout=None if printed is None else subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    stop_requests.pass_on_to(child)
    silence = Silence()
    listening = _Listening(printed, silence, child)
    errors = _Output(child.stderr, sys.stderr.buffer, listening)
    output = None if printed is None else _Output(child.stdout, sys.stdout.buffer, listening)
    status = child.wait()
    if output is not None:
        output.wait()
    errors.wait()
    silence.broken()
    return Ended(status, stop_requests.first, errors.exception(), silence)


@dataclass(frozen=True)
class _Listening:
    """What is listened for in a script's output."""

    metrics: Optional[PrintedMetrics]
    silence: Silence
    child: subprocess.Popen[bytes]

    def heard(self) -> None:
        """Something was printed: a script whose metrics cannot be used need not go on."""
        self.silence.broken()
        if self.metrics is not None and self.metrics.fault is not None:
            self.child.terminate()


class _Output:
    """A stream of the script's, passed on as it comes, with its end remembered."""

    def __init__(
        self, stream: Optional[IO[bytes]], onward: IO[bytes], listening: _Listening
    ) -> None:
        self._end = b""
        self._listening = listening
        metrics = listening.metrics
        self._lines = None if metrics is None else Lines(metrics)
        self._reader = threading.Thread(target=self._pass_on, args=(stream, onward), daemon=True)
        self._reader.start()

    def _pass_on(self, stream: IO[bytes], onward: IO[bytes]) -> None:
        for chunk in iter(lambda: os.read(stream.fileno(), 65536), b""):
            onward.write(chunk)
            onward.flush()
            self._end = (self._end + chunk)[-MOST_REMEMBERED:]
            if self._lines is not None:
                self._lines.feed(chunk)
            self._listening.heard()
        if self._lines is not None:
            self._lines.end()

    def wait(self) -> None:
        """Until all of it was read."""
        self._reader.join(SECONDS_TO_READ)

    def exception(self) -> str:
        """The last exception in it that a script raised, in one line."""
        self.wait()
        found = _EXCEPTION.findall(self._end.decode(errors="replace"))
        return _OURS.sub("", found[-1]) if found else "its log says more"
