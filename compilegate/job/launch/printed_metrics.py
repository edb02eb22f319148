"""Metrics caught in what a script prints: all values of each, of which the last counts.

``COMPILEGATE_PRINTED_NAME`` holds the regular expression whose first group is the number.
Percentages are divided by 100; a fraction above one is refused as soon as it is printed.
"""

from __future__ import annotations

import re
import statistics
from typing import Iterable, Mapping, Sequence

from compilegate.job import names
from compilegate.job.evidence import above_one

MOST_RECORDED = 50  # values of one metric that the evidence holds
LEAST_INTERVALS = 3  # fewer printed speeds show no steady state
TOO_FEW = (
    "the speed was printed fewer than three times: if it is an average of the whole run, the time "
    "to compile is in it; print the speed of each interval of steps, or time the steps with "
    "compilegate.job (evidence = 'written')"
)
_SLOW = 0.5  # of the later speeds' median: something was compiled in an interval below that


class PrintedMetrics:
    """The values of each metric in the lines that were read, in order."""

    def __init__(self, expressions: Mapping[str, str], percent: Iterable[str] = ()) -> None:
        self._expressions = {name: re.compile(text) for name, text in expressions.items()}
        self._percent = frozenset(percent)
        self.series: dict[str, list[float]] = {}
        self.fault: str | None = None  # why a value is not what it should be, in one sentence

    @classmethod
    def declared(cls, variables: Mapping[str, str]) -> PrintedMetrics | None:
        """Those that the job's environment names; None if there are none."""
        named = {
            name[len(names.PRINTED_VARIABLE) :]: text
            for name, text in variables.items()
            if name.startswith(names.PRINTED_VARIABLE)
        }
        return cls(named, variables.get(names.PERCENT_VARIABLE, "").split()) if named else None

    @property
    def values(self) -> dict[str, float]:
        """The last value of each."""
        return {name: values[-1] for name, values in self.series.items()}

    @property
    def recorded(self) -> dict[str, tuple[float, ...]]:
        """All values of each in order, or `MOST_RECORDED` of them with the first and last one."""
        return {name: _thinned(values) for name, values in self.series.items()}

    def read(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        for name, expression in self._expressions.items():
            for found in expression.finditer(text):
                try:
                    printed = float(found.group(1))
                except (TypeError, ValueError):  # the group caught nothing, or what is no number
                    continue
                value = printed / 100 if name in self._percent else printed
                if self.fault is None and above_one(name, value):
                    self.fault = self._fault(name, printed, text.strip())
                self.series.setdefault(name, []).append(value)

    def _fault(self, name: str, printed: float, line: str) -> str:
        expected, remedy = "a fraction of 1 at most", ""
        if name in self._percent:
            expected = "100 at most, since program.percent names it"
        elif printed <= 100:
            remedy = f"put percent = [{name!r}] into [program] if it is printed in per cent, or "
        return (
            f"{name} was printed as {printed:g} (in the line {line[:100]!r}), expected {expected}: "
            f"{remedy}let the expression of program.metrics.{name} catch another number"
        )


def _thinned(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) <= MOST_RECORDED:
        return tuple(values)
    last, count = len(values) - 1, MOST_RECORDED - 1
    return tuple(values[round(last * each / count)] for each in range(MOST_RECORDED))


def printed_speed(values: Sequence[float]) -> float:
    """Samples per second by all printed speeds, stalls included, without the warm-up: the first
    value and later ones as slow as compilation. Of fewer than three the last counts."""
    wrong = [value for value in values if not value > 0]  # NaN too; the gate has its reason
    if wrong:
        return wrong[0]
    if len(values) < LEAST_INTERVALS:
        return values[-1]
    half = len(values) // 2
    slow = _SLOW * statistics.median(values[half:])
    steady_from = next((at for at in range(1, half) if values[at] >= slow), half)
    return statistics.harmonic_mean(values[steady_from:])
