"""Ctrl-C and its like as requests to stop, instead of exceptions at any line."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals(request_stop: Callable[[str], None]) -> Iterator[None]:
    """Call `request_stop` with a signal's name for as long as the context lasts.

    Python lets only the main thread have signal handlers; on another thread nothing changes.
    `request_stop` may be called at any moment and must not take locks.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        request_stop(signal.Signals(number).name)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
