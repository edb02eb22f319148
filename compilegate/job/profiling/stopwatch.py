"""Divides the time of steps into phases, on the thread that takes them.

On a busy machine a thread waits for the processor. Linux counts how long: that is taken off, so
that a phase does not grow because something else computes.
"""

from __future__ import annotations

import os
import time
from typing import Dict, List, Optional, Tuple

from compilegate.job.profiling.record import DATA, FORWARD, OTHER, PHASES, PhaseTime

_Reading = Tuple[float, float, float]
"""The wall's clock, the thread's own, and its wait for a processor, in seconds."""


class Stopwatch:
    """Exactly one phase is under way at any moment."""

    def __init__(self) -> None:
        self._delays = _Delays()
        self.phase = OTHER
        self._since = self._now()
        self._spent: Dict[str, List[float]] = {}
        self._unclear = [0.0, 0.0]
        """Since the last batch or update, in which nobody can tell yet what the step does."""
        self.marks: Optional[List[Tuple[int, str]]] = None
        """When each phase began, in nanoseconds since 1970; None while nobody wants to know."""
        self.restart()

    def enter(self, phase: str) -> str:
        """Another phase begins; returns the one before."""
        before = self.phase
        self._add()
        if phase in (DATA, FORWARD):
            self._unclear = [0.0, 0.0]
        self.phase = phase
        if self.marks is not None:
            self.marks.append((time.time_ns(), phase))
        return before

    def unclear_was_forward(self) -> None:
        """The model was never called in a way that shows: what came since the batch is its forward
        pass."""
        self._add()
        for spent, from_other, index in (
            (self._spent[FORWARD], self._spent[OTHER], 0),
            (self._spent[FORWARD], self._spent[OTHER], 1),
        ):
            spent[index] += self._unclear[index]
            from_other[index] -= self._unclear[index]
        self._unclear = [0.0, 0.0]
        if self.marks:
            at, phase = self.marks[-1]
            if phase == OTHER:
                self.marks[-1] = at, FORWARD

    def lap(self) -> Dict[str, PhaseTime]:
        """The phases since the last lap; the next one begins."""
        self._add()
        done = {name: PhaseTime(*spent) for name, spent in self._spent.items()}
        self.restart()
        return done

    def restart(self) -> None:
        """Forget what was measured, as of a pause."""
        self._since = self._now()
        self._spent = {name: [0.0, 0.0] for name in PHASES}
        self._unclear = [0.0, 0.0]

    def _add(self) -> None:
        now, since = self._now(), self._since
        self._since = now
        # Less than nothing is the grain of the counters.
        wall = max(now[0] - since[0] - (now[2] - since[2]), 0.0)
        processor = now[1] - since[1]
        spent = self._spent[self.phase]
        spent[0] += wall
        spent[1] += processor
        if self.phase == OTHER:
            self._unclear[0] += wall
            self._unclear[1] += processor

    def _now(self) -> _Reading:
        return time.perf_counter(), time.thread_time(), self._delays.seconds()


class _Delays:
    """How long this thread was ready to run and did not."""

    def __init__(self) -> None:
        self._file: Optional[int] = None
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
            self.seconds()
        except (OSError, ValueError, IndexError):
            self._file = None  # no Linux, or one without the count

    def seconds(self) -> float:
        """So far; zero where nothing counts it."""
        if self._file is None:
            return 0.0
        return int(os.pread(self._file, 128, 0).split()[1]) / 1e9
