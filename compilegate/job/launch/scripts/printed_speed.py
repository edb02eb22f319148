"""The speed of a script that only prints it: which of the printed values say how fast it trains.

A script prints its speed in one of three ways, and two of them hold the time that compiling took:

* once, at its end: the average of the whole run;
* again and again, each time the average since the start, which creeps up towards the steady speed;
* for each interval of steps: the first one is slow where a compiler was at work in it. Of such a
  script the speed is what all intervals but the first ones come to.

Which it is follows from the values. All arms are measured alike.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Optional, Sequence

from compilegate.job.launch.scripts.printed_metrics import Silence

LEAST_INTERVALS = 3
"""Fewer values show no steady state; the last one counts then."""
_LEAST_TO_TELL = 5
"""Values from which an average since the start can be told from intervals."""
_SLOW = 0.5
"""A share of the later values' median: less is an interval in which something was compiled."""
_TELLING_SILENCE = 0.1
"""A share of the run's time."""

_REMEDY = (
    "print the speed of each interval of steps, or time the steps with compilegate.job "
    "(evidence = 'written')"
)


@dataclass(frozen=True)
class PrintedSpeed:
    """Samples per second, and what a person should know about them."""

    value: float
    note: Optional[str] = None
    """One sentence; None where the printed values need none."""
    average: bool = False
    """Whether the time to compile is in it."""


def printed_speed(
    values: Sequence[float], silence: Silence, *, compiled: bool
) -> Optional[PrintedSpeed]:
    """The speed by all values that were printed, in order; None where there are none.

    `compiled` says whether a compiler was at work, without which an average holds no compile time.
    """
    if not values:
        return None
    last = values[-1]
    if not all(value > 0 for value in values):  # False for NaN too
        return PrintedSpeed(next(value for value in values if not value > 0))
    if len(values) < LEAST_INTERVALS:
        averages = len(values) == 1 or values[0] >= _SLOW * last
        return _of_averages(last, _average(len(values), silence), compiled and averages)
    steady = steady_of_averages(values)
    if steady is not None:
        return _of_averages(last, _creeping(values, steady, silence), compiled)
    early = _early(values)
    value = statistics.harmonic_mean(values[early:])
    slow = values[0] < _SLOW * value
    return PrintedSpeed(value, _left_out(values, early, value) if compiled and slow else None)


def _of_averages(last: float, note: str, compiled: bool) -> PrintedSpeed:
    return PrintedSpeed(last, note, average=True) if compiled else PrintedSpeed(last)


def steady_of_averages(values: Sequence[float]) -> Optional[float]:
    """The speed towards which averages since the start creep; None where the values are none.

    An average of n equal intervals at a steady speed s, after a delay d, is n / (d + n / s): its
    reciprocal is a straight line in 1 / n. Intervals have a first value that stands out, and then
    no such line. The first value is left out, so that it decides nothing.
    """
    if len(values) < _LEAST_TO_TELL:
        return None
    x = [1.0 / number for number in range(2, len(values) + 1)]
    y = [1.0 / value for value in values[1:]]
    slope, intercept = _line(x, y)
    if slope <= 0 or intercept <= 0:
        return None
    fitted = [intercept + slope * each for each in x]
    mean = statistics.fmean(y)
    spread = sum((each - mean) ** 2 for each in y)
    missed = sum((each - fit) ** 2 for each, fit in zip(y, fitted))
    straight = missed <= 0.02 * spread
    material = slope * x[0] >= 0.05 * intercept
    return 1.0 / intercept if straight and material else None


def _line(x: Sequence[float], y: Sequence[float]) -> "tuple[float, float]":
    """Slope and intercept, by least squares."""
    middle, mean = statistics.fmean(x), statistics.fmean(y)
    spread = sum((each - middle) ** 2 for each in x)
    slope = sum((a - middle) * (b - mean) for a, b in zip(x, y)) / spread
    return slope, mean - slope * middle


def _early(values: Sequence[float]) -> int:
    """How many values at the beginning are warm-up: the first, and those as slow as compilation."""
    typical = statistics.median(values[len(values) // 2 :])
    early = 1
    while early < len(values) // 2 and values[early] < _SLOW * typical:
        early += 1
    return early


def _average(times: int, silence: Silence) -> str:
    often = "once" if times == 1 else "twice"
    return (
        f"the speed was printed {often}, as an average of the whole run, so that the time to "
        f"compile is in it{_told(silence)}: {_REMEDY}"
    )


def _creeping(values: Sequence[float], steady: float, silence: Silence) -> str:
    return (
        f"each printed speed is an average since the start, so that the time to compile is in it: "
        f"it crept from {values[0]:.4g} to {values[-1]:.4g} samples per second, towards about "
        f"{steady:.4g}{_told(silence)}: {_REMEDY}"
    )


def _left_out(values: Sequence[float], early: int, value: float) -> str:
    one = early == 1
    return (
        f"the first {'printed speed' if one else f'{early} printed speeds'} "
        f"({', '.join(f'{each:.4g}' for each in values[:early][:3])} samples per second) "
        f"{'is' if one else 'are'} left out, since compilation is in {'it' if one else 'them'}; "
        f"the other {len(values) - early} come to {value:.4g}"
    )


def _told(silence: Silence) -> str:
    """How long the script was silent, where that says something."""
    if silence.longest < max(1.0, _TELLING_SILENCE * silence.total):
        return ""
    return (
        f"; {silence.began:.0f} s after its start it printed nothing for {silence.longest:.0f} of "
        f"{silence.total:.0f} s"
    )
