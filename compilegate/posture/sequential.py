"""Evidence that adds up over executions, looked at after each.

Two methods, for two questions:

- **Shadow, and the repetition of a failed execution,** have an end that is known: so many
  executions, then trying stops. Where looks are planned, a group-sequential test is the most
  powerful: the error is spent over the looks (Lan and DeMets 1983; spending of Pocock's kind, which
  favours early looks), and each look's bound is found by integrating over all earlier ones
  (Armitage, McPherson and Rowe 1969). A failed execution begins the test anew, without that one,
  because it was chosen for being bad; the tests share their error, the first getting most.
- **Audits** have no end. There a confidence sequence holds at all times at once: the
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
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from statistics import NormalDist, fmean, stdev

from compilegate.posture.contract import Policy
from compilegate.posture.state import Difference, Looks, Reference, Track

FIRST_LOOK = 3
"""Two executions leave one degree of freedom, which could decide nothing and would cost error."""
FALSE_PROMOTIONS = 0.04
"""The chance that the sequential test ever promotes a candidate that is worse by its margin."""
FALSE_REVERTS = 0.05
"""The chance that a candidate which is as good is ever refused by what its executions measure
together: half of it for all of them, half for those that follow a failed one."""

_Density = list[tuple[float, float]]
_NORMAL = NormalDist()
_GRID = 81
_WIDTH = 6.0
_MIXTURE = 1.0
"""How strong an effect the mixture expects, in executions: small is for audits that are few."""
_HALVINGS = 80


def why_promoted(track: Track, policy: Policy) -> str:
    """Why the candidate may train alone; empty while it may not."""
    if track.passes >= policy.passes:
        return f"{track.passes} passes of the gate in a row"
    count, looks = len(track.recent), _by_metric(track.recent)
    for differences in looks.values():
        if len(differences) != count:
            return ""  # a metric that came or went: the executions are not about the same
        alpha = _share(FALSE_PROMOTIONS, track.trials + 1)
        if lower_bound(differences, alpha=alpha, looks=policy.patience) <= -differences[-1].margin:
            return ""
    if not looks:
        return ""
    return (
        f"{', '.join(looks)} within the margin over {count} executions together "
        f"(group-sequential test of {policy.patience} looks)"
    )


def proven_worse(track: Track, policy: Policy) -> str:
    """What the executions together, or those since a failed one, prove to be worse; empty where
    they prove nothing."""
    looks, recent = _by_metric(track.looks), _by_metric(track.recent)
    for metric, differences in looks.items():
        alpha, margin = FALSE_REVERTS / 2 / len(looks), differences[-1].margin
        bounds = [(always_valid(differences, alpha=alpha), len(differences))]
        since = recent.get(metric, [])
        if track.trial and len(since) == len(track.recent):
            share = _share(alpha, track.trials)
            lower = lower_bound(since, alpha=share, looks=policy.patience)
            upper = -lower_bound(since, alpha=share, looks=policy.patience, sign=-1)
            bounds.append(((lower, upper), len(since)))
        for (lower, upper), count in bounds:
            if upper < 0 and lower <= -margin:
                return (
                    f"{metric} is worse than the baseline's by {-upper:.4g} to {-lower:.4g} over "
                    f"{count} executions; the margin is {margin:.4g}"
                )
    return ""


def _share(alpha: float, number: int) -> float:
    """The error that the test of this number may spend; all shares together are alpha."""
    return alpha * 6 / (math.pi * number) ** 2


def _by_metric(looks: Looks) -> dict[str, list[Difference]]:
    found: dict[str, list[Difference]] = {}
    for look in looks:
        for one in look:
            found.setdefault(one.metric, []).append(one)
    return found


def drift(values: Mapping[str, float], reference: Reference) -> str:
    """Which metric of an execution without a baseline is worse than the reference by more than its
    margin; empty if none is.

    It only suspects: the data may have changed and not the candidate, which an audit tells apart,
    as it trains a baseline on the same data.
    """
    for metric, margin in reference.margins.items():
        before = [one[metric] for one in reference.values if metric in one]
        gap = fmean(before) - values[metric] if before and metric in values else 0.0
        if gap > margin:
            return f"{metric} is {gap:.4g} worse than its reference; the margin is {margin:.4g}"
    return ""


def lower_bound(
    differences: Sequence[Difference], *, alpha: float, looks: int, sign: int = 1
) -> float:
    """What the mean difference, or its opposite, is at least, at this look of so many planned ones.

    It is below that by chance at any of the looks with a probability of `alpha`.
    """
    count = len(differences)
    if not FIRST_LOOK <= count <= looks:
        return -math.inf
    middle, error = _mean(differences)
    return sign * middle - upper_quantile(_nominal(alpha, looks)[count], count - 1) * error


def always_valid(differences: Sequence[Difference], *, alpha: float) -> tuple[float, float]:
    """Bounds of the mean difference, at every look for ever with a confidence of 1 - `alpha`."""
    count = len(differences)
    shrunk = _MIXTURE / (_MIXTURE + count)
    needed = (1 / (alpha * math.sqrt(shrunk))) ** (2 / max(1, count))
    if count < FIRST_LOOK or needed * shrunk >= 1:
        return -math.inf, math.inf
    t = math.sqrt((count - 1) * (needed - 1) / (1 - needed * shrunk))
    middle, error = _mean(differences)
    return middle - t * error, middle + t * error


def _mean(differences: Sequence[Difference]) -> tuple[float, float]:
    """The mean and its standard error: from the spread between executions, and no less than each
    one's own error."""
    values, count = [one.difference for one in differences], len(differences)
    stated = math.sqrt(math.fsum(one.standard_error**2 for one in differences)) / count
    return fmean(values), max(stdev(values) / math.sqrt(count), stated)


@cache
def _nominal(alpha: float, looks: int) -> dict[int, float]:
    """Tail probability of the bound at each look."""
    nominal: dict[int, float] = {}
    spent, last = 0.0, 0
    # The density of the sum after looks that did not cross it, as points and weights; one look is
    # one unit of information.
    density = [(0.0, 1.0)]
    for look in range(FIRST_LOOK, looks + 1):
        step = math.sqrt(look - last)
        target = alpha * math.log(1 + (math.e - 1) * look / looks) - spent
        bound = _where(partial(_crossed, density, step), target, 8 * math.sqrt(look))
        nominal[look] = 1 - _NORMAL.cdf(bound / math.sqrt(look))
        density = _carried(density, step, bound, look)
        spent, last = spent + target, look
    return nominal


def _crossed(density: _Density, step: float, bound: float) -> float:
    """The chance that the next sum lies above the bound."""
    return math.fsum(
        weight * (1 - _NORMAL.cdf((bound - point) / step)) for point, weight in density
    )


def _carried(density: _Density, step: float, bound: float, look: int) -> _Density:
    """The sum after one more step, of those that do not cross; Simpson's rule, weights included."""
    low = -_WIDTH * math.sqrt(look)
    width = (bound - low) / (_GRID - 1)
    scale = width / 3 / (step * math.sqrt(2 * math.pi))
    after = []
    for index in range(_GRID):
        there, simpson = low + width * index, 2 + 2 * (index % 2)
        if index in {0, _GRID - 1}:
            simpson = 1
        reached = (
            weight * math.exp(-0.5 * ((there - point) / step) ** 2) for point, weight in density
        )
        after.append((there, simpson * scale * math.fsum(reached)))
    return after


def _where(tail: Callable[[float], float], chance: float, high: float) -> float:
    """Point between zero and `high` where a falling tail reaches `chance`, by bisection."""
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if tail(middle) > chance:
            low = middle
        else:
            high = middle
    return high


# Student's distribution in the standard library: a Lambda function has no scipy.


def upper_tail(t: float, freedom: int) -> float:
    """The chance that Student's t with so many degrees of freedom lies above `t`.

    By the finite series for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    angle, odd = math.atan(t / math.sqrt(freedom)), freedom % 2
    cosine, terms = math.cos(angle), []
    term = cosine if odd else 1.0
    for power in range(1 + odd, freedom, 2):
        terms.append(term)
        term *= cosine**2 * power / (power + 1)
    within = math.sin(angle) * math.fsum(terms)
    return 0.5 - ((angle + within) / math.pi if odd else within / 2)


@cache
def upper_quantile(chance: float, freedom: int) -> float:
    """The t above which so small a chance lies; `chance` is below a half."""
    high = 1.0
    while upper_tail(high, freedom) > chance:
        high *= 2
    return _where(lambda t: upper_tail(t, freedom), chance, high)
