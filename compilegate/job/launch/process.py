"""Runs a training in a process of its own: its output passes through, requests to stop reach it, it
is ended at a deadline, and how it ended is known."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType
from typing import IO, List, Mapping, Optional, Sequence

from compilegate.job import endings
from compilegate.job.endings import Ending, killed_for_memory
from compilegate.job.errors import killed_by
from compilegate.job.launch.scripts.printed_metrics import Lines, PrintedMetrics, Silence

SECONDS_TO_READ = 5.0
"""What the script leaves running may hold its output open; nobody waits for that."""
SECONDS_TO_END = 20.0
"""What a process has to end by itself at its deadline, before it is killed."""
MOST_REMEMBERED = 20_000

_EXCEPTION = re.compile(r"^(?:\[rank\d+\]: )?([A-Za-z_][\w.]*: \S.*)$", re.MULTILINE)
"""The last line of a traceback, also where torchrun says whose it is."""
_OURS = re.compile(r"^compilegate\.[\w.]+Error: ")
"""Before what is already a sentence for the person who can mend it."""


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
class Ended:
    """How a training's process ended."""

    status: int
    """As subprocess has it: negative for a signal that killed it."""
    exception: str
    """The last exception that it raised, in one line; empty where it printed none."""
    silence: Silence
    overdue: bool
    """Whether it was ended at its deadline."""
    memory_ran_out: bool
    """Whether the kernel killed something because memory ran out meanwhile."""

    @property
    def ending(self) -> Optional[Ending]:
        """None where it ended as if all was well."""
        if self.overdue:
            return endings.TIME_LIMIT
        if self.signal:
            return endings.of_signal(self.signal, self.memory_ran_out)
        if self.status:
            return endings.of_exception(self.exception) or endings.EXIT_STATUS
        return None

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
        last = f": {self.exception}" if self.exception else "; its log says more"
        if self.overdue:
            return "the training was ended shortly before the job's time limit"
        if self.signal:
            return f"the training was {killed_by(self.signal)}{last if self.exception else ''}"
        return f"the training ended with exit status {self.status}{last}"


def run_training(
    command: Sequence[str],
    environment: Mapping[str, str],
    stop_requests: StopRequests,
    *,
    printed: Optional[PrintedMetrics] = None,
    deadline: Optional[float] = None,
) -> Ended:
    """Run the command to its end, or to the `deadline` on the monotonic clock.

    Where metrics are to be caught, all of its output is listened to; it is stopped when they turn
    out to be wrong.
    """
    killed_before = killed_for_memory()
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
    overdue = not _ends(child, deadline)
    status = child.wait()
    if output is not None:
        output.wait()
    errors.wait()
    silence.broken()
    return Ended(
        status,
        errors.exception(),
        silence,
        overdue=overdue and not stop_requests.first,
        memory_ran_out=killed_for_memory() > killed_before,
    )


def _ends(child: subprocess.Popen[bytes], deadline: Optional[float]) -> bool:
    """Whether it ends before the deadline; it is ended then."""
    for seconds, act in (
        (None if deadline is None else max(0.0, deadline - time.monotonic()), child.terminate),
        (SECONDS_TO_END, child.kill),
    ):
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            act()
        else:
            return act == child.terminate
    return False


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
        return _OURS.sub("", found[-1]) if found else ""
