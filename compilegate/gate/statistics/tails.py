"""Long tails: what few very bad examples do to a bound on a mean, and what no bound can see.

A loss has a long tail: a handful of validation examples carries much of its mean. A validation set
that happens to hold few of them shows a small harm and a small spread at once, so a t bound lets
more wrong candidates through than it promises. Three things are done about it, in the order in
which a tail grows; what they cost and what they leave is measured in docs/gate-calibration.md.

**Skewed.** The quantile is shifted by |skewness| (2 t^2 + 1) / (6 sqrt n), the first term of the
Edgeworth expansion of the t statistic (Johnson, "Modified t tests and confidence intervals for
asymmetrical populations", JASA 1978; Hall, "On the removal of skewness by transformation", JRSS B
1992). Both bounds move, so that swapped arms mirror. Beside it, one imaginary example that lies as
far off as the furthest is added to the variance (`difference_interval`).

For flips that is enough: where every flip is a harm, the bound is then within 3% of the exact one
of a Poisson number of them, from five flips on, and above it where there are fewer.

**Too skewed.** For values without a limit that expansion holds where n > 25 skewness^2: Cochran's
rule ("Sampling Techniques", 1977, section 2.15; for t intervals Sugden, Smith & Jones, JRSS B
2000). A smaller sample has no claim to a t quantile. It gets Cantelli's,
sqrt(confidence / (1 - confidence)), which holds for a distribution of any shape: 4.4 instead of 1.6
standard errors at 95%. What is clear all the same is still decided.

**Unseen.** No rule finds a harm that the sample does not hold (Bahadur & Savage, Annals of
Mathematical Statistics 1956: no bound on a mean is valid without one on the values). Examples as
rare as 3 in n are absent from one validation set in twenty, the "rule of three" (Hanley &
Lippman-Hand, JAMA 1983). If all of those were as bad as the worst that was seen, the harm must
still stay within the margin; else nothing passes. What is worse than all that was seen stays
invisible.

A studentised bootstrap over examples was left aside: it needs thousands of passes over a million
examples, has random numbers, and like the first term above knows only the tail that was sampled.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import pdtr, stdtr

from compilegate.evidence import FloatArray

COCHRAN = 25.0
MOST_LOST = 50
"""Lost examples of which more would be seen."""


def skewness(deviations: FloatArray) -> float:
    """Third standardised moment of deviations from their mean; zero where there are none."""
    largest = float(np.abs(deviations).max())
    if largest == 0.0:
        return 0.0
    scaled = deviations / largest  # so that third powers cannot underflow
    squares = scaled * scaled  # products are far faster than powers
    return float(np.mean(squares * scaled) / np.mean(squares) ** 1.5)


def examples_for(skew: float) -> int:
    """The examples from which on a t quantile, shifted, can be trusted (Cochran's rule)."""
    return math.ceil(COCHRAN * skew**2)


def shifted_quantile(t_quantile: float, skew: float, examples: int) -> float:
    """What takes the place of a t quantile for the mean of skewed examples."""
    return t_quantile + abs(skew) * (2.0 * t_quantile**2 + 1.0) / (6.0 * math.sqrt(examples))


def cantelli_quantile(confidence: float) -> float:
    """What holds for the mean of examples of any distribution."""
    return math.sqrt(confidence / (1.0 - confidence))


def unseen_share(examples: int, confidence: float) -> float:
    """The share of a population that is absent from a sample with a chance of 1 - confidence."""
    return -math.expm1(math.log1p(-confidence) / examples)


def chance_of_hidden_losses(
    gain: float, spread: float, freedom: float, loss: float, harm: float
) -> float:
    """The chance that a candidate which is worse by `harm`, all of it in examples that are lost
    outright and cost `loss` each, looks at least as good as this one: better by `gain`.

    How many are lost is a Poisson number, and what is not lost differs by chance with this spread.
    """
    expected = harm / loss
    chance = 0.0
    for lost in range(MOST_LOST):
        share = float(pdtr(lost, expected) - (pdtr(lost - 1, expected) if lost else 0.0))
        furthest = gain + lost * loss
        if spread > 0.0:
            chance += share * float(stdtr(freedom, -furthest / spread))
        elif furthest <= 0.0:
            chance += share
    return chance


def examples_to_see(share: float, confidence: float) -> int:
    """The sample in which a share (below one) of the population shows with this confidence."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-share))
