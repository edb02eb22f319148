"""Splits a job's output into lines, and looks for metrics in them.

Anybody's expression may take for ever on one line, and a thread that matches lets no other run. So
this file is also a program, which reads a job's log after its end, in a process that can be killed:

    python -I -S reading.py        request as JSON on standard input, result on standard output

Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Callable

_LINE_CHARACTERS = 2000
# A line that does not end is passed on in pieces, for a job may never end one.
_UNENDED_BYTES = 1 << 16
CHUNK_BYTES = 1 << 16
CHUNK_SECONDS = 5.0
"""Processor time for one expression and one chunk, which mostly takes some milliseconds."""


class LineReader:
    """Splits a job's output into lines as a terminal shows them."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Pass on the lines that end in this chunk."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._emit(line)
        if len(self._rest) > _UNENDED_BYTES:
            self.end()

    def end(self) -> None:
        """Pass on the last line, which nothing has ended."""
        if self._rest:
            self._emit(self._rest)
            self._rest = b""

    def _emit(self, raw: bytes) -> None:
        # A progress bar overwrites itself: what a terminal would show last is the line.
        line = raw.decode(errors="replace").rstrip("\r").rpartition("\r")[2][:_LINE_CHARACTERS]
        self._on_line(line)


def main() -> None:
    """Read the log; write the number of the expression at work, and the values at the end."""
    request = json.load(sys.stdin)
    patterns = [(name, re.compile(text, flags)) for name, text, flags in request["patterns"]]
    marks = request["marks"]
    offsets = [offset for offset, _ in marks]
    last: dict[str, tuple[float, float]] = {}
    lines: deque[str] = deque()
    reader = LineReader(lines.append)
    with open(request["log"], "rb", buffering=0) as log:  # noqa: PTH123 - saves importing it
        offset = log.seek(offsets[0])
        while True:
            chunk = log.read(CHUNK_BYTES)
            reader.feed(chunk) if chunk else reader.end()
            timestamp = marks[bisect_right(offsets, offset) - 1][1]
            for number, (name, pattern) in enumerate(patterns):
                os.write(1, f"{number}\n".encode())
                signal.setitimer(signal.ITIMER_PROF, CHUNK_SECONDS)  # its signal kills
                for line in lines:
                    for match in pattern.finditer(line):
                        value = _number(match)
                        if value is not None:
                            last[name] = (value, timestamp)
            lines.clear()
            offset += len(chunk)
            if not chunk:
                break
    os.write(1, json.dumps(last).encode())


def _number(match: re.Match[str]) -> float | None:
    text = match[1] if match.re.groups else match[0]
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


if __name__ == "__main__":
    main()
