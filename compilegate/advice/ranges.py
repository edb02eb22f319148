"""Ranges: two ends that an amount is expected between. Pure.

A range is no confidence interval. It says what was published, assumed or measured at the least and
at the most, and arithmetic keeps to the ends: what comes out holds every outcome that the inputs
allow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, both included and finite."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError(f"found {self.low} to {self.high}, allowed: finite ends in order")

    @classmethod
    def exactly(cls, value: float) -> Range:
        """The range of one value."""
        return cls(value, value)

    @property
    def middle(self) -> float:
        """Halfway. For sorting, never shown as an estimate."""
        return (self.low + self.high) / 2

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return Range(self.low - other.high, self.high - other.low)

    def times(self, other: Range | float) -> Range:
        """The products of both."""
        by = other if isinstance(other, Range) else Range.exactly(other)
        ends = [mine * theirs for mine in (self.low, self.high) for theirs in (by.low, by.high)]
        return Range(min(ends), max(ends))

    def hull(self, other: Range) -> Range:
        """The smallest range that holds both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def holds(self, value: float) -> bool:
        """Whether the value lies in it."""
        return self.low <= value <= self.high


NOTHING = Range(0.0, 0.0)
UNCHANGED = Range(1.0, 1.0)
"""As a factor."""


def over_corners(amount: Callable[..., float], *ranges: Range) -> Range:
    """The range of an amount that is linear, or monotonic, in each of its inputs alone: then its
    extremes are at the corners."""
    ends = [amount(*corner) for corner in product(*((each.low, each.high) for each in ranges))]
    return Range(min(ends), max(ends))
