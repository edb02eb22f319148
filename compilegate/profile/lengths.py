"""What padding costs, and what other ways to pad would, from the lengths of examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compilegate.job.profiling.record import Lengths

_BINS = 8
_BUCKETS = (2, 4, 8)
_CANDIDATES = 128
"""Lengths that a bucket may end at, at most: quantiles of those that there are."""


@dataclass(frozen=True)
class Way:
    """One way to bring examples of different lengths into a batch."""

    name: str
    positions: float
    """How many an example takes, on average."""
    graphs: int
    """Lengths that occur, each of them a graph of a compiler of static shapes."""
    ends: tuple[int, ...] = ()
    """The lengths of buckets."""


@dataclass(frozen=True)
class LengthsView:
    """The lengths of the examples, and what they cost."""

    by: str
    examples: int
    median: float
    longest: int
    real: float
    """Positions of an example that are no padding, on average."""
    ways: tuple[Way, ...]
    """The first is how it is now."""
    histogram: tuple[tuple[int, int, int], ...]
    """From, up to, examples."""

    @property
    def padding(self) -> float:
        """Share of what is computed now that is padding."""
        return 1 - self.real / self.ways[0].positions if self.ways[0].positions else 0.0

    def saved_by(self, way: Way) -> float:
        """Share of what is computed now that this way does not compute; below zero it computes
        more."""
        now = self.ways[0].positions
        return 1 - way.positions / now if now else 0.0


def lengths_view(lengths: Lengths | None) -> LengthsView | None:
    """None where there is nothing to say: no lengths, or all the same and full."""
    if lengths is None or not lengths.real:
        return None
    real, padded, batch = (np.array(each) for each in (lengths.real, lengths.padded, lengths.batch))
    if (real == padded).all() and len(np.unique(padded)) == 1:
        return None
    longest = _longest_in_batch(real, batch)
    most = int(max(real.max(), padded.max()))
    ways = [
        Way("as it is", float(padded.mean()), len(np.unique(padded))),
        Way("all to the longest there is", float(most), 1, (most,)),
        Way("each batch to its longest", float(longest.mean()), len(np.unique(longest))),
    ]
    for count in _BUCKETS:
        ends = bucket_ends(real, count)
        if len(ends) > 1 and all(ends != each.ends for each in ways):
            filled = np.array(ends)[np.searchsorted(ends, real)]
            ways.append(Way(f"{len(ends)} buckets", float(filled.mean()), len(ends), ends))
    ways.append(Way("no padding at all (packed)", float(real.mean()), 1))
    return LengthsView(
        by=lengths.by,
        examples=len(real),
        median=float(np.median(real)),
        longest=int(real.max()),
        real=float(real.mean()),
        ways=tuple(ways),
        histogram=_histogram(real),
    )


def bucket_ends(real: npt.NDArray[np.int64], count: int) -> tuple[int, ...]:
    """The ends of up to `count` buckets with which the fewest positions are computed, by dynamic
    programming over the lengths that there are."""
    values, numbers = np.unique(real, return_counts=True)
    if len(values) > _CANDIDATES:
        ends = np.unique(np.quantile(real, np.linspace(0, 1, _CANDIDATES), method="higher"))
        places = np.searchsorted(ends, values)
        numbers = np.bincount(places, weights=numbers, minlength=len(ends))
        values = ends
    size = len(values)
    count = min(count, size)
    below = np.concatenate([[0], np.cumsum(numbers)])
    # cost[i]: of the examples up to value i, with the buckets so far, the last of which ends there.
    cost = below[1:] * values
    chosen: list[npt.NDArray[np.int64]] = []
    for _ in range(count - 1):
        # of[i, j]: a bucket from after j up to i, behind the best of those up to j.
        of = cost[None, :] + (below[1:, None] - below[None, 1:]) * values[:, None]
        of = np.where(np.tri(size, k=-1, dtype=bool), of, np.inf)
        best = of.argmin(axis=1)
        with_one_more = of[np.arange(size), best]
        better = with_one_more < cost
        chosen.append(np.where(better, best, -1))
        cost = np.where(better, with_one_more, cost)
    found, at = [int(values[-1])], size - 1
    for choice in reversed(chosen):
        if choice[at] >= 0:
            at = int(choice[at])
            found.append(int(values[at]))
    return tuple(sorted(found))


def _longest_in_batch(
    real: npt.NDArray[np.int64], batch: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    _, places = np.unique(batch, return_inverse=True)
    most = np.zeros(places.max() + 1, dtype=np.int64)
    np.maximum.at(most, places, real)
    longest: npt.NDArray[np.int64] = most[places]
    return longest


def _histogram(real: Sequence[int] | npt.NDArray[np.int64]) -> tuple[tuple[int, int, int], ...]:
    low, high = int(np.min(real)), int(np.max(real))
    width = max(-(-(high - low + 1) // _BINS), 1)
    found = []
    for start in range(low, high + 1, width):
        end = min(start + width - 1, high)
        inside = int(((np.asarray(real) >= start) & (np.asarray(real) <= end)).sum())
        found.append((start, end, inside))
    return tuple(found)
