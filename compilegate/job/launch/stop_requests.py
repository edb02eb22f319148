"""Requests to stop that reach this process, passed on to the one that it waits for."""

from __future__ import annotations

import signal
import subprocess
from types import FrameType
from typing import List, Optional


class StopRequests:
    """Those that come from now on. Made before the child is started: one that came in between
    would end this process alone, and leave the child running with its output open."""

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
