"""Lopsided harm: where most differences are harms, no symmetric tail can be taken for granted.

Between two arms that are equally good, differences fall to either side alike, so a harm as large
as the largest gain is what chance does, and Student's quantile counts it. Where nearly all fall to
the one side, the arms do differ, and what a few values show of the size says little: harm that is
log-normal over seeds, or has a Pareto tail over examples, shows a small mean and a small spread at
once in one sample of three. A t bound lets 20 to 60 of 100 such candidates through.

So the bound on the harm's side is widened, and only there, and only where the harm is lopsided:

**Seeds.** Five or more of one direction as the sign test has it at 95%, or skewed towards harm more
than 95% of normal samples are. The quantile over seeds is then Cantelli's, which holds for any
distribution. Where the sign test says so, the share of seeds that these few need not show
(`tails.unseen_share`) is taken to be as bad as the worst of them, besides.

**Examples.** Of the 20 that differ most, 15 or more are harms. Then the harm's own tail is
continued beyond the worst example, as a Pareto tail with Hill's index (Annals of Statistics 1975):
the part of the mean that lies in examples as rare as 3 in n.

Equal candidates meet either by chance in one experiment of twenty, and mostly pass all the same:
benchmarks/gate/gate_adverse.py measures what it costs and prevents. Fewer than five seeds cannot
show that they are lopsided; `failures` says what they leave open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc

from compilegate.evidence import FloatArray
from compilegate.gate.statistics.difference_interval import CrossedMean
from compilegate.gate.statistics.tails import cantelli_quantile, unseen_share

LEVEL = 0.05
FEWEST_SEEDS = 5
NORMAL_975 = 1.96
MOST_DIFFERENT = 20
"""Examples whose directions are counted."""
LEAST_HARMS = 15
"""How many of these come by chance in two experiments of a hundred."""
LEAST_INDEX = 1.1
"""A tail with an index of one or less has no mean."""


@dataclass(frozen=True)
class HarmTail:
    """What lopsided harm adds to a bound; nothing where it is not lopsided."""

    any_shape: bool = False
    """Whether the seeds' quantile must hold for a distribution of any shape."""
    worst_seed: float = 0.0
    """The harm of the worst seed, where nearly all have some."""
    beyond_worst_example: float = 0.0
    """By how much the mean of harms beyond the worst example's lies above zero."""

    @property
    def is_there(self) -> bool:
        """Whether the harm is lopsided at all."""
        return self.any_shape or self.beyond_worst_example > 0.0

    def width(self, slack: CrossedMean, confidence: float) -> float:
        """What the bound on the harm's side is wider by."""
        wider = 0.0
        if self.any_shape and slack.seed_variance is not None:
            half_width = slack.half_width(confidence)
            any_shape = slack.half_width(confidence, seed_quantile=cantelli_quantile(confidence))
            wider += max(any_shape - half_width, 0.0)
            wider += unseen_share(slack.seeds, confidence) * self.worst_seed
        if self.beyond_worst_example > 0.0:
            wider += unseen_share(slack.examples, confidence) * self.beyond_worst_example
        return wider


def harm_tail(harms: FloatArray, *, bounded: bool, paired: bool = True) -> HarmTail:
    """What is lopsided in a (seeds, examples) table, or (seeds,) values, of harms.

    `bounded`: examples cannot lie further off than these do, so their tail ends here. `paired`:
    every seed has a baseline of its own; with one for all, that one's luck is on all of them.
    """
    by_seed = harms if harms.ndim == 1 else harms.mean(axis=1)
    any_shape, worst = _of_seeds(by_seed) if paired else (False, 0.0)
    beyond = 0.0 if bounded or harms.ndim == 1 else _beyond_worst(harms.mean(axis=0))
    return HarmTail(any_shape, worst, beyond)


def _of_seeds(by_seed: FloatArray) -> tuple[bool, float]:
    seeds = len(by_seed)
    if seeds < FEWEST_SEEDS:
        return False, 0.0
    harmed = int(np.count_nonzero(by_seed > 0.0))
    if harmed and float(bdtrc(harmed - 1, seeds, 0.5)) <= LEVEL:
        return True, float(by_seed.max())
    chance = NORMAL_975 * math.sqrt(6.0 * (seeds - 2) / ((seeds + 1) * (seeds + 3)))
    deviations = by_seed - by_seed.mean()
    spread = float(np.mean(deviations**2))
    if spread == 0.0:
        return False, 0.0
    return float(np.mean(deviations**3)) / spread**1.5 > chance, 0.0


def _beyond_worst(by_example: FloatArray) -> float:
    if len(by_example) < 2 * MOST_DIFFERENT:
        return 0.0
    furthest = np.argpartition(np.abs(by_example), -MOST_DIFFERENT)[-MOST_DIFFERENT:]
    harms = by_example[furthest]
    harms = np.sort(harms[harms > 0.0])
    if len(harms) < LEAST_HARMS:
        return 0.0
    index = 1.0 / max(float(np.mean(np.log(harms[1:] / harms[0]))), 1e-9)
    index = max(index, LEAST_INDEX)
    return float(harms[-1]) * index / (index - 1.0)
