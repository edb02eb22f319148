"""How many more seeds, or examples, would decide what is undecided. Pure.

The answer takes the measured spread and the measured difference as they are, and asks at which
design eight of ten experiments would be decided. (Where the interval is expected just to clear the
margin, only every other one is.) Spread and difference are estimates, so it says "about". Both ways
out are asked for by themselves, since they cost different things: a seed is trained, an example is
labelled, and all jobs are run again to score it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from compilegate.gate.statistics.difference_interval import NO_EXAMPLES, CrossedMean

POWER = 0.8
"""The share of the planned experiments that should be decided."""
MOST_SEEDS = 100
MOST_GROWTH = 1000.0
"""How many times the validation set may grow; more counts as never."""
_GROWTH_STEP = 1.05


@dataclass(frozen=True)
class SampleSize:
    """What would settle one comparison, each by itself; None where it would not."""

    seeds: int | None = None
    """Seeds of each arm, in total."""
    examples: int | None = None
    """Validation examples (of the slice, where it is one), in all; to two digits."""
    both: tuple[int, int] | None = None
    """Seeds and examples, where only more of both would."""


def sample_size_needed(difference: CrossedMean, rows: int, confidence: float) -> SampleSize:
    """What would bring the bound of the difference, as it is, to one side of zero.

    `rows` is the number of validation examples behind the difference. Nothing would where the
    spread between seeds is not known, or there is no spread at all.
    """
    if difference.seed_variance is None or difference.half_width(confidence) == 0.0:
        return SampleSize()
    seeds = _seeds(difference, confidence)
    if difference.examples == NO_EXAMPLES:
        return SampleSize(seeds=seeds)
    growth = _growth(difference, confidence)
    both = None
    if seeds is None and growth is None:
        both = _both(difference, rows, confidence)
    return SampleSize(seeds, None if growth is None else rounded_up(rows * growth), both)


def _seeds(difference: CrossedMean, confidence: float) -> int | None:
    return next(
        (
            seeds
            for seeds in range(difference.seeds + 1, MOST_SEEDS + 1)
            if _is_settled(difference, confidence, seeds=seeds)
        ),
        None,
    )


def _growth(difference: CrossedMean, confidence: float) -> float | None:
    """The least growth of the validation set that settles it.

    Found by trying, not by bisection: as the examples' share of the variance shrinks, the seeds'
    quantile counts for more, and the bound may for a while even widen.
    """
    steps = math.ceil(math.log(MOST_GROWTH) / math.log(_GROWTH_STEP))
    tried = (_GROWTH_STEP**step for step in range(1, steps + 1))
    return next(
        (growth for growth in tried if _is_settled(difference, confidence, growth=growth)), None
    )


def _both(difference: CrossedMean, rows: int, confidence: float) -> tuple[int, int] | None:
    """The least common multiple of seeds and examples that settles it."""
    for factor in range(2, MOST_SEEDS // difference.seeds + 1):
        seeds = difference.seeds * factor
        if _is_settled(difference, confidence, seeds=seeds, growth=factor):
            return seeds, rounded_up(rows * factor)
    return None


def _is_settled(
    difference: CrossedMean, confidence: float, *, seeds: int | None = None, growth: float = 1.0
) -> bool:
    planned = difference.expected(seeds or difference.seeds, growth)
    # Where only seeds are added they are scored on the same examples, which draw no new chance.
    from_examples = planned.example_variance if growth > 1.0 else 0.0
    drawn = replace(planned, example_variance=from_examples, bias=0.0)
    return planned.half_width(confidence) + drawn.half_width(POWER) < abs(difference.mean)


def rounded_up(count: float) -> int:
    """To two significant digits: an estimate should not look like a measurement."""
    unit = int(10 ** max(math.floor(math.log10(count)) - 1, 0))
    return math.ceil(count / unit) * unit
