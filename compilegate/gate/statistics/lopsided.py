"""Lopsided harm: where most differences are harms, no symmetric tail can be taken for granted.

Between two arms that are equally good, differences fall to either side alike, so a harm as large
as the largest gain is what chance does, and Student's quantile counts it. Where nearly all fall to
the one side, the arms do differ, and what a few values show of the size says little: harm that is
log-normal over seeds, or has a Pareto tail over examples, shows a small mean and a small spread at
once in one sample of three. A t bound lets 20 to 60 of 100 such candidates through.

So the bound on the harm's side is widened, and only there, and only where the harm is lopsided:

**Seeds.** Five or more of one direction as the sign test has it at 95%, or ten or more skewed
towards harm more than 95% of normal samples are: the quantile over seeds is then Cantelli's, which
holds for any distribution, and the share of seeds that these few need not show
(`tails.unseen_share`) is taken to be as bad as the worst of them. Three or more that are worse on
average than the spread of the baseline's seeds explains at 95 or 96%, and those just named: the
bound is no lower than that of a log-normal mean (by generalised pivots: Krishnamoorthy & Mathew,
Journal of Statistical Planning and Inference 2003; Cox's method lets 8 of 100 through with three
seeds where 5 are promised), of harms that are raised to a fiftieth of the worst, since what is next
to zero is noise; unless even the worst is less than a tenth of the margin.

**What three seeds leave open.** A t bound lets 37 of 100 candidates through whose harm is
log-normal with a sigma of 1.5 and a mean of one margin. With three seeds 6 are left where the
baseline's seeds differ by a thirtieth of the margin, 10 at a sixteenth and 17 at a tenth; with five
seeds 5 at a tenth and 15 at a fifth. No rule does what is asked of three seeds at a tenth: the most
powerful test there is, which knows the noise and the distribution (Neyman & Pearson, 1933), refuses
more than 10 of 100 equal candidates when it lets 5 of the others through
(benchmarks/gate/gate_least_seeds.py). So the level is chosen such that about five equal candidates
of 100 are lost at most, and the verdict says with fewer than five seeds what they do not show.

**Examples.** Of the 20 that differ most, 15 or more are harms. Then the harm's own tail is
continued beyond the worst example, as a Pareto tail with Hill's index (Annals of Statistics 1975):
the part of the mean that lies in examples as rare as 3 in n.

Equal candidates meet either by chance in one experiment of twenty, and mostly pass all the same:
benchmarks/gate/gate_adverse.py measures what it costs and prevents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import bdtrc, chdtri, ndtr, stdtrit

from compilegate.evidence import FloatArray
from compilegate.gate.statistics.difference_interval import CrossedMean
from compilegate.gate.statistics.tails import cantelli_quantile, unseen_share

LEVEL = 0.05
FEWEST_SEEDS = 5
FEWEST_SKEWED = 10
NORMAL_975 = 1.96
FEWEST_WORSE = 3
"""Fewer seeds have no variance of a logarithm that says anything."""
CLEARLY_WORSE = 0.95
"""The confidence at which seeds are worse than the baseline's spread explains."""
OF_FIVE_SEEDS = 0.96
"""The same for so many seeds that the sign test refuses some as well."""
LEAST_OF_WORST = 0.02
"""The share of the worst seed's harm that the others are raised to."""
LEAST_OF_MARGIN = 0.1
"""The share of the margin that the worst seed loses where a log-normal bound is taken: the
logarithms of less are those of noise, and bound a twentieth of the margin by thousands."""
NODES = 1000
"""Points over which the variance of a logarithm is integrated."""
FAR_OUT = 8.0
"""Standard errors beyond which a normal number does not lie."""
MOST_DIFFERENT = 20
"""Examples whose directions are counted."""
LEAST_HARMS = 15
"""How many of these come by chance in two experiments of a hundred."""
MOST_EXPONENT = 500.0
LEAST_INDEX = 1.1
"""A tail with an index of one or less has no mean."""


@dataclass(frozen=True)
class HarmTail:
    """What lopsided harm adds to a bound; nothing where it is not lopsided."""

    any_shape: bool = False
    """Whether the seeds' quantile must hold for a distribution of any shape."""
    worst_seed: float = 0.0
    """The harm of the worst seed, where nearly all have some."""
    seeds: tuple[float, ...] = ()
    """The harms of the seeds, where they are lopsided and worth a word beside the margin."""
    beyond_worst_example: float = 0.0
    """By how much the mean of harms beyond the worst example's lies above zero."""

    @property
    def is_there(self) -> bool:
        """Whether the harm is lopsided at all."""
        return self.any_shape or bool(self.seeds) or self.beyond_worst_example > 0.0

    def width(self, slack: CrossedMean, confidence: float) -> float:
        """What the bound on the harm's side is wider by."""
        wider = 0.0
        half_width = slack.half_width(confidence)
        if self.any_shape and slack.seed_variance is not None:
            any_shape = slack.half_width(confidence, seed_quantile=cantelli_quantile(confidence))
            wider += max(any_shape - half_width, 0.0)
            wider += unseen_share(slack.seeds, confidence) * self.worst_seed
        if self.seeds:
            examples = math.sqrt(slack.example_variance) * float(
                stdtrit(slack.example_freedom, confidence)
            )
            of_seeds = log_normal_bound(self.seeds, confidence) - float(np.mean(self.seeds))
            wider = max(wider, math.hypot(of_seeds, examples) - half_width)
        if self.beyond_worst_example > 0.0:
            wider += unseen_share(slack.examples, confidence) * self.beyond_worst_example
        return wider


def log_normal_bound(harms: Sequence[float], confidence: float) -> float:
    """The upper bound of the mean of harms that are log-normal."""
    raised = np.maximum(np.asarray(harms), LEAST_OF_WORST * float(np.max(harms)))
    logarithms = np.log(raised)
    spread = float(logarithms.std(ddof=1))
    exponent = float(logarithms.mean()) + _above_mean(spread, len(logarithms), confidence)
    return math.exp(min(exponent, MOST_EXPONENT))


def _above_mean(spread: float, count: int, confidence: float) -> float:
    """How far the logarithm of a log-normal mean may lie above the mean of `count` logarithms with
    this standard deviation: the quantile of  spread z / (u sqrt(count)) + spread^2 / (2 u^2),  with
    z normal and u^2 a chi-square number over its degrees of freedom.
    """
    if spread == 0.0:
        return 0.0
    shares = (np.arange(NODES) + 0.5) / NODES
    variances = spread**2 * (count - 1) / chdtri(count - 1, 1.0 - shares)
    errors = np.sqrt(variances / count)

    def excess(limit: float) -> float:
        return float(np.mean(ndtr((limit - variances / 2.0) / errors))) - confidence

    highest = float(np.max(variances / 2.0 + FAR_OUT * errors))
    return float(brentq(excess, 0.0, highest))


def harm_tail(
    harms: FloatArray,
    *,
    bounded: bool,
    paired: bool = True,
    baseline: FloatArray | None = None,
    margin: float = 0.0,
) -> HarmTail:
    """What is lopsided in a (seeds, examples) table, or (seeds,) values, of harms.

    `baseline` has the (seeds,) values of the baseline. `bounded`: examples cannot lie further off
    than these do, so their tail ends here. `paired`: every seed has a baseline of its own; with one
    for all, that one's luck is on all of them. `margin`: the harm that is allowed, in their units.
    """
    by_seed = harms if harms.ndim == 1 else harms.mean(axis=1)
    one_sign = paired and _has_one_sign(by_seed)
    any_shape = one_sign or (paired and _is_skewed(by_seed))
    worse = one_sign or (paired and baseline is not None and _are_worse(by_seed, baseline))
    beyond = 0.0 if bounded or harms.ndim == 1 else _beyond_worst(harms.mean(axis=0))
    worst = float(by_seed.max()) if one_sign else 0.0
    log_normal = worse and by_seed.max() > LEAST_OF_MARGIN * abs(margin)
    return HarmTail(any_shape, worst, tuple(by_seed.tolist()) if log_normal else (), beyond)


def _has_one_sign(by_seed: FloatArray) -> bool:
    """Whether so many of them are harms that the sign test says so."""
    seeds = len(by_seed)
    harmed = int(np.count_nonzero(by_seed > 0.0))
    return seeds >= FEWEST_SEEDS and harmed > 0 and bool(bdtrc(harmed - 1, seeds, 0.5) <= LEVEL)


def _is_skewed(by_seed: FloatArray) -> bool:
    """Whether they are more skewed towards harm than normal samples are."""
    seeds = len(by_seed)
    deviations = by_seed - by_seed.mean()
    spread = float(np.mean(deviations**2))
    if seeds < FEWEST_SKEWED or spread == 0.0:
        return False
    chance = NORMAL_975 * math.sqrt(6.0 * (seeds - 2) / ((seeds + 1) * (seeds + 3)))
    return bool(float(np.mean(deviations**3)) / spread**1.5 > chance)


def _are_worse(by_seed: FloatArray, baseline: FloatArray) -> bool:
    """Whether their mean is more than two arms of the baseline's spread would differ by."""
    seeds = len(by_seed)
    if seeds < FEWEST_WORSE or len(baseline) != seeds or not by_seed.max() > 0.0:
        return False
    chance = math.sqrt(2.0 / seeds) * float(baseline.std(ddof=1))
    level = CLEARLY_WORSE if seeds < FEWEST_SEEDS else OF_FIVE_SEEDS
    return float(by_seed.mean()) > float(stdtrit(seeds - 1, level)) * chance


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
