"""The search for the largest batch that fits. Pure: what fits is asked of a function.

It takes for granted that a batch fits if a larger one does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Bracket:
    """Where the search has come to."""

    fitting: int
    """The largest batch that was tried and fits; 0 where not even 1 does."""
    too_large: int | None
    """The smallest that was tried and does not; None where the largest allowed one fits."""


def largest_fitting(
    fits: Callable[[int], bool], *, first: int, most: int, tolerance: float
) -> Bracket:
    """Ask about `first`, double or halve until the limit lies between two, then bisect.

    It ends when the two are neighbours, or nearer than `tolerance` as a share of what fits. No
    batch is asked about twice, and none above `most`. `1 <= first <= most`.
    """
    bracket = _between(fits, first=first, most=most)
    while bracket.too_large is not None:
        fitting, too_large = bracket.fitting, bracket.too_large
        if too_large - fitting <= max(1, tolerance * fitting):
            break
        middle = (fitting + too_large) // 2
        bracket = (
            Bracket(fitting=middle, too_large=too_large)
            if fits(middle)
            else Bracket(fitting=fitting, too_large=middle)
        )
    return bracket


def _between(fits: Callable[[int], bool], *, first: int, most: int) -> Bracket:
    size = first
    if fits(size):
        while size < most:
            larger = min(2 * size, most)
            if not fits(larger):
                return Bracket(fitting=size, too_large=larger)
            size = larger
        return Bracket(fitting=size, too_large=None)
    while size > 1:
        smaller = size // 2
        if fits(smaller):
            return Bracket(fitting=smaller, too_large=size)
        size = smaller
    return Bracket(fitting=0, too_large=1)


HEADROOM = 0.1
"""Share of the batch that advice leaves free: memory fragments over a long run, evaluation and the
parity probe come on top, and the next release of a library may need a little more."""
MULTIPLE = 8
"""Kernels are made for multiples of it."""


def advised(fitting: int) -> int:
    """The batch to take when `fitting` is the largest that fits; at least 1."""
    with_headroom = int(fitting * (1 - HEADROOM))
    if with_headroom >= MULTIPLE:
        return with_headroom // MULTIPLE * MULTIPLE
    return max(with_headroom, 1)
