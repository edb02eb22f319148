"""What a job prints: its lines, and the metrics that its MetricDefinitions find in them."""

from __future__ import annotations

import math
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from compilegate.local.errors import StepError, StepRequestError

_LINE_CHARACTERS = 2000
# A line that does not end is passed on in pieces, for a job may never end one.
_UNENDED_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 16
_CHUNK_SECONDS = 5.0
"""Time limit for one expression in one chunk of a log; usually it takes milliseconds."""


class LineReader:
    """Splits a job's output into lines as a terminal shows them."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Pass on the lines that end in this chunk."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._on_line(_shown(line))
        if len(self._rest) > _UNENDED_BYTES:
            self.end()

    def end(self) -> None:
        """Pass on the last line, which nothing has ended."""
        if self._rest:
            self._on_line(_shown(self._rest))
            self._rest = b""


def _shown(raw: bytes) -> str:
    # A progress bar overwrites itself: what a terminal would show last is the line.
    return raw.decode(errors="replace").rstrip("\r").rpartition("\r")[2][:_LINE_CHARACTERS]


def compiled(name: str, expression: str) -> Any:
    """The Regex of a metric, whose first group is the value. Raises StepRequestError."""
    import regex  # noqa: PLC0415 - 20 ms that only jobs with metrics need

    try:
        return regex.compile(expression)
    except regex.error as error:
        raise StepRequestError(f"the Regex of metric {name} is malformed: {error}") from error


def final_metrics(
    expressions: Mapping[str, str],
    log: Path,
    marks: Sequence[tuple[int, float]],
    given_up: Callable[[], bool],
    say: Callable[[str], None],
) -> list[dict[str, Any]] | None:
    """FinalMetricDataList of DescribeTrainingJob: the last value of each metric in a job's log, of
    which `marks` are (offset, seconds since the epoch).

    A metric whose last value is NaN or infinite is left out: whoever reads it then fails, instead
    of comparing with something that is no number. So is one whose expression takes too long, with
    a sentence to `say`. None as soon as `given_up` says so. Raises StepError when the log cannot be
    read.
    """
    if not expressions or not marks or not log.is_file():
        return []
    wanted = {name: compiled(name, expression) for name, expression in expressions.items()}
    last: dict[str, tuple[float, float]] = {}
    offsets = [offset for offset, _ in marks]
    try:
        for offset, lines in _chunks_from_the_end(log, offsets[0]):
            for name in list(wanted):
                if given_up():
                    return None
                try:
                    value = _last_value(wanted[name], lines)
                except TimeoutError:
                    say(
                        f"metric {name} has no value: its Regex takes over {_CHUNK_SECONDS:.0f} s "
                        f"for {_CHUNK_BYTES >> 10} KiB of the log"
                    )
                    value = math.nan
                if value is not None:
                    last[name] = value, marks[bisect_right(offsets, offset) - 1][1]
                    del wanted[name]
            if not wanted:
                break
    except OSError as error:
        raise StepError(f"the metrics in {log} could not be read: {error}") from error
    return [
        {"MetricName": name, "Value": last[name][0], "Timestamp": last[name][1]}
        for name in expressions
        if name in last and math.isfinite(last[name][0])
    ]


def _chunks_from_the_end(log: Path, start: int) -> Iterator[tuple[int, list[str]]]:
    """(offset, lines) of each chunk of a log, from its end back to `start`."""
    with log.open("rb", buffering=0) as file:
        end, rest = file.seek(0, os.SEEK_END), b""
        while end > start:
            begin = max(start, end - _CHUNK_BYTES)
            file.seek(begin)
            lines = (file.read(end - begin) + rest).split(b"\n")
            rest = b""
            if begin > start and (len(lines) > 1 or len(lines[0]) <= _UNENDED_BYTES):
                rest = lines.pop(0)  # begins in an earlier chunk
            yield begin, [_shown(line) for line in lines]
            end = begin


def _last_value(pattern: Any, lines: Sequence[str]) -> float | None:
    """The last number that a compiled expression finds. Raises TimeoutError."""
    found = None
    deadline = time.monotonic() + _CHUNK_SECONDS
    for line in lines:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        for match in pattern.finditer(line, timeout=left, concurrent=True):
            try:
                found = float(match[1] if pattern.groups else match[0])
            except (TypeError, ValueError):
                continue
    return found
