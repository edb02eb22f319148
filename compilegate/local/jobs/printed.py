"""What a job prints: its lines, and the metrics that its MetricDefinitions find in them."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from compilegate.local.errors import StepError, StepRequestError

_LINE_CHARACTERS = 2000
# A line that does not end is passed on in pieces, for a job may never end one.
_UNENDED_BYTES = 1 << 16
_LINE_SECONDS = 2
"""Time limit for one expression in one line; usually it takes microseconds."""


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
    expressions: Mapping[str, str], log: Path, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """FinalMetricDataList of DescribeTrainingJob: the last value of each metric in a job's log.

    A metric whose last value is NaN or infinite is left out: whoever reads it then fails, instead
    of comparing with something that is no number. So is one whose expression takes too long, with
    a sentence to `say`. Raises StepError when the log cannot be read.
    """
    wanted = {name: compiled(name, expression) for name, expression in expressions.items()}
    last: dict[str, float] = {}

    def search(line: str) -> None:
        for name, pattern in tuple(wanted.items()):
            try:
                for match in pattern.finditer(line, timeout=_LINE_SECONDS, concurrent=True):
                    with contextlib.suppress(TypeError, ValueError):
                        last[name] = float(match[1] if pattern.groups else match[0])
            except TimeoutError:
                say(
                    f"metric {name} has no value: its Regex takes over {_LINE_SECONDS} s for a line"
                )
                del wanted[name]

    reader = LineReader(search)
    try:
        with log.open("rb") as file:
            while wanted and (chunk := file.read(_UNENDED_BYTES)):
                reader.feed(chunk)
    except OSError as error:
        raise StepError(f"the metrics in {log} could not be read: {error}") from error
    reader.end()
    now = time.time()
    return [
        {"MetricName": name, "Value": last[name], "Timestamp": now}
        for name in wanted
        if name in last and math.isfinite(last[name])
    ]
