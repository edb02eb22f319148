"""Which line of the program is under way, looked at now and then from another thread."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections import Counter
from typing import Any, Callable, Optional, Tuple

from compilegate.job.profiling.record import COMPUTES, LOADS, Line
from compilegate.job.profiling.syncs import short_path

SECONDS_BETWEEN = 0.001
MOST_LINES = 30
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STARTER = os.path.join("profiling", "script.py")
_LOADING = ("__next__", "__getitem__", "__getitems__", "__iter__", "collate", "collate_fn")
_LIBRARIES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_STANDARD = os.path.dirname(os.__file__) + os.sep


class Sampler:
    """Looks at one thread, which it disturbs very little."""

    def __init__(self, phase: Callable[[], str]) -> None:
        self._phase = phase
        self._watched = threading.get_ident()
        self._over = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._seen: Counter[Tuple[str, str, str]] = Counter()

    def start(self) -> None:
        """From here on."""
        self._thread = threading.Thread(target=self._look, name="profile", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def lines(self) -> Tuple[Line, ...]:
        """Most frequent first."""
        return tuple(
            Line(where, phase, what, count)
            for (where, phase, what), count in self._seen.most_common(MOST_LINES)
        )

    def _look(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN):
            frame = sys._current_frames().get(self._watched)
            found = None if frame is None else program_line(frame)
            if found is not None:
                self._seen[found[0], self._phase(), found[1]] += 1


def program_line(frame: Any) -> Optional[Tuple[str, str]]:
    """The innermost line that belongs to no library, and whether it is part of a loader; None
    where there is none."""
    where: Optional[str] = None
    what = COMPUTES
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if file.startswith(os.path.join(_OWN_FOLDER, "")):
            if where is not None and file.endswith(_STARTER):
                break
            frame = frame.f_back
            continue
        foreign = any(each in file for each in _LIBRARIES) or file.startswith((_STANDARD, "<"))
        if not foreign:
            where = where or f"{short_path(file)}:{frame.f_lineno}"
            if code.co_flags & inspect.CO_GENERATOR or code.co_name in _LOADING:
                what = LOADS
        frame = frame.f_back
    return None if where is None else (where, what)
