"""Evidence that adds up over executions, looked at after each.

Two methods, for two questions:

- **Shadow** has an end that is known: so many executions, then trying stops. Where looks are
  planned, a group-sequential test is the most powerful: the error is spent over the looks (Lan and
  DeMets 1983; spending of Pocock's kind, which favours early looks), and each look's bound is
  found by integrating over all earlier ones (Armitage, McPherson and Rowe 1969).
- **Audits and drift** have no end. There a confidence sequence holds at all times at once: the
  sequential t-test by a mixture over effect sizes (Robbins 1970, Lai 1976), in the form of Lindon,
  Ham, Tingley and Bojinov 2022. It gives up some power for never having to name an end.

The unit is the execution, not the example. Data that changes between executions moves all examples
of an execution together, so the spread between executions is estimated from the executions
themselves, and the error that each one states is only a floor for it. So few units need Student's
quantiles: each bound of the normal theory is carried over by its tail probability (Jennison and
Turnbull 2000, section 4.4). That is an approximation, which `benchmarks/posture` holds against a
simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, stdev

from compilegate.posture.evidence.student import upper_quantile

FIRST_LOOK = 3
"""Two executions leave one degree of freedom, which could decide nothing and would cost error."""

_NORMAL = NormalDist()
_GRID = 81
_WIDTH = 6.0
_MIXTURE = 1.0
"""How strong an effect the mixture expects, in executions: small is for audits that are few."""


@dataclass(frozen=True)
class Interval:
    """Bounds for a mean; infinite where there is too little to say."""

    lower: float
    upper: float


def lower_bound(
    differences: Sequence[float], errors: Sequence[float], *, alpha: float, looks: int
) -> float:
    """What the mean difference is at least, at this look of so many planned ones.

    Below it by chance at any of the looks with a probability of `alpha`.
    """
    count = len(differences)
    if not FIRST_LOOK <= count <= looks:
        return -math.inf
    error = _standard_error(differences, errors)
    return fmean(differences) - upper_quantile(_nominal(alpha, looks)[count], count - 1) * error


def always_valid(
    values: Sequence[float], errors: Sequence[float] = (), *, alpha: float
) -> Interval:
    """The mean of the values, at every look for ever with a confidence of 1 - `alpha`."""
    count = len(values)
    if count < FIRST_LOOK:
        return Interval(-math.inf, math.inf)
    shrunk = _MIXTURE / (_MIXTURE + count)
    needed = (1 / (alpha * math.sqrt(shrunk))) ** (2 / count)
    if needed * shrunk >= 1:
        return Interval(-math.inf, math.inf)
    t = math.sqrt((count - 1) * (needed - 1) / (1 - needed * shrunk))
    middle, half = fmean(values), t * _standard_error(values, errors)
    return Interval(middle - half, middle + half)


def fixed_interval(values: Sequence[float], *, alpha: float) -> Interval:
    """The mean of values that were looked at once."""
    if len(values) < FIRST_LOOK:
        return Interval(-math.inf, math.inf)
    half = upper_quantile(alpha / 2, len(values) - 1) * _standard_error(values, ())
    return Interval(fmean(values) - half, fmean(values) + half)


def _standard_error(values: Sequence[float], errors: Sequence[float]) -> float:
    """The mean's: from the spread between executions, and no less than each one's own error."""
    count = len(values)
    between = stdev(values) / math.sqrt(count)
    stated = math.sqrt(math.fsum(error * error for error in errors)) / count
    return max(between, stated)


def _spent(alpha: float, fraction: float) -> float:
    return alpha * math.log(1 + (math.e - 1) * fraction)


@cache
def _nominal(alpha: float, looks: int) -> dict[int, float]:
    """At each look, the tail probability of its bound."""
    nominal: dict[int, float] = {}
    spent = 0.0
    # The density of the sum, after looks that did not cross, on a grid; one look is one unit of
    # information.
    points, density = [0.0], [1.0]
    last = 0
    for look in range(FIRST_LOOK, looks + 1):
        step = math.sqrt(look - last)
        target = _spent(alpha, look / looks) - spent
        bound = _crossing(points, density, step, target, look)
        nominal[look] = 1 - _NORMAL.cdf(bound / math.sqrt(look))
        points, density = _carried(points, density, step, bound, look)
        spent, last = spent + target, look
    return nominal


def _crossing(
    points: list[float], density: list[float], step: float, target: float, look: int
) -> float:
    """The bound of the sum that is crossed with a probability of `target`."""
    low, high = 0.0, 8 * math.sqrt(look)
    for _ in range(50):
        middle = (low + high) / 2
        crossed = math.fsum(
            weight * (1 - _NORMAL.cdf((middle - point) / step))
            for point, weight in zip(points, density, strict=True)
        )
        if crossed > target:
            low = middle
        else:
            high = middle
    return high


def _carried(
    points: list[float], density: list[float], step: float, bound: float, look: int
) -> tuple[list[float], list[float]]:
    """The sum after one more step, of those that do not cross; Simpson's rule, weights included."""
    low = -_WIDTH * math.sqrt(look)
    width = (bound - low) / (_GRID - 1)
    after = [low + width * index for index in range(_GRID)]
    simpson = [1 if i in {0, _GRID - 1} else 4 if i % 2 else 2 for i in range(_GRID)]
    scale = width / 3 / (step * math.sqrt(2 * math.pi))
    weights = [
        factor
        * scale
        * math.fsum(
            weight * math.exp(-0.5 * ((there - point) / step) ** 2)
            for point, weight in zip(points, density, strict=True)
        )
        for there, factor in zip(after, simpson, strict=True)
    ]
    return after, weights
