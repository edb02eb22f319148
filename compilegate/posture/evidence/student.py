"""Student's distribution in the standard library: a Lambda function has no scipy."""

from __future__ import annotations

import math
from functools import cache

_STEPS = 200
_TINY = 1e-300


def upper_tail(t: float, freedom: float) -> float:
    """The chance that Student's t with so many degrees of freedom lies above `t`."""
    half = 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))
    return half if t > 0 else 1 - half


@cache
def upper_quantile(chance: float, freedom: float) -> float:
    """The t above which so small a chance lies; `chance` is below a half."""
    high = 1.0
    while upper_tail(high, freedom) > chance:
        high *= 2
    low = 0.0
    for _ in range(80):
        middle = (low + high) / 2
        if upper_tail(middle, freedom) > chance:
            low = middle
        else:
            high = middle
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised; by its continued fraction (Lentz), which converges fast below the mean."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    c, d = 1.0, 1 / _apart(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / _apart(1 + even * d), _apart(1 + even / c)
        fraction *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / _apart(1 + odd * d), _apart(1 + odd / c)
        fraction *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return front * fraction / a


def _apart(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
