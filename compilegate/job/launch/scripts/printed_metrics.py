"""Catches metrics in what a script prints: of each all values, of which the last one counts.

Each metric has a variable ``COMPILEGATE_PRINTED_NAME``, which holds the regular expression whose
first group is the number. What the script prints in per cent is divided by 100, so that evidence
holds fractions; a fraction above one is refused as soon as it is printed.
"""

from __future__ import annotations

import re
import time
from typing import Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from compilegate.job.evidence.fractions import above_one
from compilegate.job.names import PERCENT_VARIABLE, PRINTED_VARIABLE

LONGEST_LINE = 65_536
"""Bytes. What has no end by then is looked at in pieces."""
MOST_VALUES = 10_000
"""For one metric. A script that prints more is heard at every second value, and so on."""
MOST_TOLD = 50
"""Values of one metric that the evidence holds."""
_FIRST = 100
"""Values at the beginning that are kept whatever comes: compilation shows there."""


class PrintedMetrics:
    """The values of each metric in the lines that were read, in order."""

    def __init__(self, expressions: Mapping[str, str], percent: Iterable[str] = ()) -> None:
        self._expressions = {name: re.compile(text) for name, text in expressions.items()}
        self._percent: FrozenSet[str] = frozenset(percent)
        self.series: Dict[str, List[float]] = {}
        self.fault: Optional[str] = None
        """Why the values are not what they should be, in one sentence; None while they may be."""

    @classmethod
    def declared(cls, variables: Mapping[str, str]) -> Optional["PrintedMetrics"]:
        """Those that the job is told to look for; None if there are none."""
        named = {
            name[len(PRINTED_VARIABLE) :]: text
            for name, text in variables.items()
            if name.startswith(PRINTED_VARIABLE)
        }
        percent = variables.get(PERCENT_VARIABLE, "").split()
        return cls(named, percent) if named else None

    @property
    def values(self) -> Dict[str, float]:
        """The last value of each."""
        return {name: values[-1] for name, values in self.series.items()}

    @property
    def course(self) -> Dict[str, Tuple[float, ...]]:
        """How each came to its last value: all values, or `MOST_TOLD` of them with the last one."""
        return {name: _some(values) for name, values in self.series.items()}

    def read(self, line: bytes) -> None:
        """Look for all of them in one line."""
        text = line.decode(errors="replace")
        for name, expression in self._expressions.items():
            for found in expression.finditer(text):
                try:
                    value = float(found.group(1))
                except (TypeError, ValueError):  # the group caught nothing, or what is no number
                    continue
                self._take(name, value, text.strip())

    def _take(self, name: str, printed: float, line: str) -> None:
        in_percent = name in self._percent
        value = printed / 100 if in_percent else printed
        if self.fault is None and above_one(name, value):
            self.fault = _above_one(name, printed, line, in_percent=in_percent)
        series = self.series.setdefault(name, [])
        series.append(value)
        if len(series) > MOST_VALUES:
            series[:] = series[:_FIRST] + series[_FIRST::2]


def _some(values: Sequence[float]) -> Tuple[float, ...]:
    if len(values) <= MOST_TOLD:
        return tuple(values)
    last = len(values) - 1
    return tuple(values[round(last * each / (MOST_TOLD - 1))] for each in range(MOST_TOLD))


def _above_one(name: str, printed: float, line: str, *, in_percent: bool) -> str:
    shown = line if len(line) <= 100 else line[:97] + "..."
    expected = (
        "100 at most, since program.percent names it" if in_percent else "a fraction of 1 at most"
    )
    percent = f"put percent = [{name!r}] into [program] if it is printed in per cent, or "
    return (
        f"{name} was printed as {printed:g} (in the line {shown!r}), expected {expected}: "
        f"{percent if not in_percent and printed <= 100 else ''}let the expression of "
        f"program.metrics.{name} catch another number"
    )


class Silence:
    """How long a script printed nothing: compilers are silent where they compile."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()
        self.longest = 0.0
        """Seconds."""
        self.began = 0.0
        """Seconds after the start, of the longest."""

    @property
    def total(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def broken(self) -> None:
        """Something was printed, or the script ended."""
        now = time.monotonic()
        if now - self._last > self.longest:
            self.longest, self.began = now - self._last, self._last - self._started
        self._last = now


class Lines:
    """Cuts a stream into lines, whatever pieces it comes in."""

    def __init__(self, metrics: PrintedMetrics) -> None:
        self._metrics = metrics
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Read the lines that are whole by now."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._metrics.read(line)
        if len(self._rest) > LONGEST_LINE:
            self.end()

    def end(self) -> None:
        """Read what is left as a line of its own."""
        self._metrics.read(self._rest)
        self._rest = b""
