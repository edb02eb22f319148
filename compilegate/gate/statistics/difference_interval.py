"""Crossed random effects: the mean of a (seeds x examples) table, and how sure one can be of it.

Every seed of an arm is scored on the same validation examples, so a table of paired differences
has two ways to have come out otherwise: other seeds, and other examples. With

    difference[s, i] = delta + seed[s] + example[i] + rest[s, i]

the mean over the table has variance  var(seed)/k + var(example)/n + var(rest)/(k n),  estimated
here by the method of moments from the two-way table (Searle, Casella & McCulloch, "Variance
Components", 1992, ch. 4; Miller, "Adding Error Bars to Evals", 2024, for the paired setting).

**The quantile.** Seeds are few, so a normal quantile would be far too small. Satterthwaite's single
number of degrees of freedom was tried first: with two or three seeds it lets 8 and 6 of 100
candidates that sit exactly on the margin through, where 5 were promised, since the variance between
two seeds is small by chance quite often. The Cochran-Cox quantile, the mean of the two components'
own t quantiles weighted by their variances, stays below 5 in the same simulation at every ratio of
the components, and costs little width (Cochran & Cox, "Experimental Designs", 1957, section 4.14).

**Degrees of freedom of the examples.** n - 1 holds for normal values. Differences in correctness
are mostly zeros with a few ones, so the variance is known only as well as the few ones allow: it
gets 2 / (sum d^4 / (sum d^2)^2 - 1/n), Satterthwaite's rule with the sample's own kurtosis.

**Tails.** Losses have long tails, and a few examples carry much of the mean: the quantile over
examples is widened by what `tails` says of their skewness. So are flips, where a candidate is wrong
on a few more examples and right on none that the baseline is not: up to 10 of 100 passed without.

**Resolution.** Two models that agree on each of 50 examples may still differ on one in twenty. One
imaginary flipped example (`one_flip`) is added to the variance, in the spirit of Agresti & Min
(Statistics in Medicine 2005); for total agreement it gives a bound of 2.9/n at 95% confidence,
where the exact "rule of three" says 3.0/n. Where nothing flips, it is one example that lies as far
off as the furthest: 3% of width for 200 normal values, and more the longer the tail.

**Bias.** Where a metric of so few examples lies above its truth (`metrics.bias_bound`), one arm's
may do so and the other's not: both bounds move by that much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from compilegate.evidence import FloatArray
from compilegate.gate.statistics.tails import (
    cantelli_quantile,
    examples_for,
    shifted_quantile,
    skewness,
)

NO_EXAMPLES = 0
ROUNDING = 1e-12
"""Differences between cells, relative to the largest, that are rounding and no spread."""


@dataclass(frozen=True)
class CrossedMean:
    """The mean of a (seeds x examples) table with the two parts of its variance."""

    mean: float
    seeds: int
    examples: int
    """Rows of examples, or groups of them; NO_EXAMPLES for a scalar that was only reported."""
    seed_variance: float | None
    """Squared standard error of the mean due to the choice of seeds; None with one seed."""
    example_variance: float
    """Squared standard error of the mean due to the choice of examples."""
    example_freedom: float
    """Degrees of freedom of `example_variance`."""
    seed_sd: float | None
    """Standard deviation over seeds of the table's row means."""
    example_skewness: float = 0.0
    """The skewness of the examples' mean differences."""
    counted: bool = False
    """Whether differences are flips, so that no example lies further off than one."""
    rest_variance: float = 0.0
    """The part of `seed_variance` that more examples would make smaller."""
    bias: float = 0.0
    """How far the mean may lie off for reasons other than chance."""
    imaginary_variance: float = 0.0
    """The part of `example_variance` that no example shows: an imaginary one's."""

    @property
    def is_too_skewed(self) -> bool:
        """Whether it takes more examples than these to trust a t quantile (`tails`)."""
        return not self.counted and self.examples < examples_for(self.example_skewness)

    def expected(self, seeds: int, growth: float = 1.0) -> CrossedMean:
        """What to expect of that many seeds, and of `growth` times as many examples.

        Two or more seeds must have been measured. The spread is taken to stay what it is.
        """
        if self.seed_variance is None:
            raise ValueError("with one seed nothing is known of the spread between seeds")
        ratio = self.seeds / seeds
        between_seeds = self.seed_variance - self.rest_variance
        return replace(
            self,
            seeds=seeds,
            examples=round(self.examples * growth),
            seed_variance=(between_seeds + self.rest_variance / growth) * ratio,
            rest_variance=self.rest_variance / growth * ratio,
            example_variance=self.example_variance / growth,
            imaginary_variance=self.imaginary_variance / growth**2,
            example_freedom=self.example_freedom * growth,
            bias=self.bias / math.sqrt(growth),
        )

    def half_width(self, confidence: float, *, seed_quantile: float | None = None) -> float:
        """Distance from the mean to a one-sided bound at `confidence`.

        With one seed measured, the bound covers the choice of examples only. `seed_quantile` takes
        the place of Student's, where that is smaller.
        """
        example_t = self._example_quantile(confidence)
        if self.seed_variance is None:
            return example_t * math.sqrt(self.example_variance) + self.bias
        seed_t = max(float(stdtrit(self.seeds - 1, confidence)), seed_quantile or 0.0)
        total = self.seed_variance + self.example_variance
        if total == 0.0:
            return self.bias
        quantile = (self.seed_variance * seed_t + self.example_variance * example_t) / total
        return quantile * math.sqrt(total) + self.bias

    def _example_quantile(self, confidence: float) -> float:
        quantile = float(stdtrit(self.example_freedom, confidence))
        if self.example_skewness == 0.0:
            return quantile
        shifted = shifted_quantile(quantile, self.example_skewness, self.examples)
        return max(shifted, cantelli_quantile(confidence)) if self.is_too_skewed else shifted


def crossed_mean(
    table: FloatArray, one_flip: float = 0.0, *, counted: bool = False, bias: float = 0.0
) -> CrossedMean:
    """Analyse a (seeds, examples) table of paired differences.

    Raises ValueError for fewer than one seed or two examples: nothing can be said of their spread.

    `one_flip` is the change of one cell that the metric can resolve, zero where cells change
    continuously; `counted` says that cells change by flips only, so that their tails end there
    (`metrics.one_flip`, `metrics.counts_flips`). `bias` is how far the mean may lie off.
    """
    seeds, examples = table.shape
    if seeds < 1 or examples < 2:
        raise ValueError(f"a table of {seeds} seeds x {examples} examples shows no spread")
    if is_constant(table):
        return _without_spread(table, one_flip, bias)
    by_seed = table.mean(axis=1)
    by_example = table.mean(axis=0)
    mean = float(by_seed.mean())
    deviations = by_example - mean
    variance_between_examples = float(np.sum(deviations**2)) / (examples - 1)
    imaginary = one_flip or float(np.abs(deviations).max())
    if seeds == 1:
        seed_variance = seed_sd = None
        rest_variance = 0.0
        example_variance = variance_between_examples / examples
    else:
        rest_square = _rest(table, by_seed, deviations) / ((seeds - 1) * (examples - 1))
        seed_sd = float(by_seed.std(ddof=1))
        # The rows' spread holds the rest's share too. Where it comes out smaller than the rest
        # alone explains, chance made it so: the rest is the better estimate.
        rest_variance = rest_square / (seeds * examples)
        seed_variance = max(seed_sd**2 / seeds, rest_variance)
        example_variance = max(variance_between_examples - rest_square / seeds, 0.0) / examples
    return CrossedMean(
        mean=mean,
        seeds=seeds,
        examples=examples,
        seed_variance=seed_variance,
        example_variance=example_variance + (imaginary / examples) ** 2,
        example_freedom=_freedom(deviations, imaginary),
        seed_sd=seed_sd,
        example_skewness=skewness(deviations),
        counted=counted,
        rest_variance=rest_variance,
        bias=bias,
        imaginary_variance=(imaginary / examples) ** 2,
    )


def seeds_mean(differences: FloatArray, largest: float = 0.0) -> CrossedMean:
    """Analyse (seeds,) paired differences of a scalar that has no examples behind it.

    The bound is then that of the paired t test over seeds. One seed shows no spread at all, nor do
    differences that are equal but for rounding: `largest` is the largest of the scalars, which sets
    the size of that.
    """
    seeds = len(differences)
    seed_sd = float(differences.std(ddof=1)) if seeds > 1 else None
    if seed_sd is not None and np.ptp(differences) <= ROUNDING * largest:
        seed_sd = 0.0
    return CrossedMean(
        mean=float(differences.mean()),
        seeds=seeds,
        examples=NO_EXAMPLES,
        seed_variance=None if seed_sd is None else seed_sd**2 / seeds,
        example_variance=0.0,
        example_freedom=math.inf,
        seed_sd=seed_sd,
    )


def _rest(table: FloatArray, by_seed: FloatArray, deviations: FloatArray) -> float:
    """Sum of squares of what neither the seed nor the example explains, seed by seed: all at once
    would take several tables of memory."""
    total = 0.0
    for row, mean in zip(table, by_seed, strict=True):
        rest = row - deviations
        rest -= mean
        total += float(rest @ rest)
    return total


def is_constant(table: FloatArray) -> bool:
    """Whether all values are one number, but for rounding."""
    lowest, highest = float(table.min()), float(table.max())
    return highest - lowest <= ROUNDING * max(abs(lowest), abs(highest))


def _without_spread(table: FloatArray, one_flip: float, bias: float) -> CrossedMean:
    """All cells are alike; whether a flip could have shown is all that is known."""
    seeds, examples = table.shape
    return CrossedMean(
        mean=float(table[0, 0]),
        seeds=seeds,
        examples=examples,
        seed_variance=None if seeds == 1 else 0.0,
        example_variance=(one_flip / examples) ** 2,
        example_freedom=_freedom(np.zeros(examples), one_flip),
        seed_sd=None if seeds == 1 else 0.0,
        bias=bias,
    )


def _freedom(deviations: FloatArray, imaginary: float) -> float:
    """Degrees of freedom of the deviations' variance, one imaginary deviation among them."""
    most = max(len(deviations) - 1.0, 1.0)
    largest = max(float(np.abs(deviations).max()), imaginary)
    if largest == 0.0:
        return most
    scaled = np.append(deviations, imaginary) / largest  # so that fourth powers cannot underflow
    squares = scaled * scaled  # products are far faster than powers
    concentration = np.sum(squares * squares) / np.sum(squares) ** 2 - 1.0 / len(deviations)
    return most if concentration <= 0.0 else min(max(2.0 / float(concentration), 1.0), most)
