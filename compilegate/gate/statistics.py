"""Crossed random effects: the mean of a (seeds x examples) table, and how sure one can be of it.

Every seed of an arm is scored on the same validation examples, so a table of paired differences
has two ways to have come out otherwise: other seeds, and other examples. With

    difference[s, i] = delta + seed[s] + example[i] + rest[s, i]

the mean over the table has variance  var(seed)/k + var(example)/n + var(rest)/(k n),  estimated
here by the method of moments from the two-way table (Searle, Casella & McCulloch, "Variance
Components", 1992, ch. 4; Miller, "Adding Error Bars to Evals", 2024, for the paired setting).

**The quantile.** Seeds are few, so a normal quantile would be far too small. Satterthwaite's single
number of degrees of freedom lets 8 of 100 candidates through that sit exactly on the margin with
two seeds, where 5 were promised. The Cochran-Cox quantile, the mean of the two components' own t
quantiles weighted by their variances, stays below 5 at every ratio of the components (Cochran &
Cox, "Experimental Designs", 1957, section 4.14).

**Degrees of freedom of the examples.** n - 1 holds for normal values. Of differences in
correctness, mostly zeros, the variance is known only as well as the few ones allow: it gets
2 / (sum d^4 / (sum d^2)^2 - 1/n), Satterthwaite's rule with the sample's own kurtosis.

**Tails.** A handful of examples may carry much of a loss. The quantile over examples is shifted by
|skewness| (2 t^2 + 1) / (6 sqrt n), the first term of the Edgeworth expansion of the t statistic
(Johnson, JASA 1978; Hall, JRSS B 1992), on both sides, so that swapped arms mirror. No rule finds a
harm that the sample does not hold (Bahadur & Savage, 1956); a verdict notes that.

**Resolution.** Two models that agree on each of 50 examples may still differ on one in twenty. One
imaginary flipped example (`metrics.one_flip`) is added to the variance, in the spirit of Agresti &
Min (Statistics in Medicine 2005); where nothing flips, one that lies as far off as the furthest.

**Bias.** Where a metric of so few examples lies above its truth (`metrics.bias_bound`), one arm's
may do so and the other's not: both bounds move by that much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaincinv, stdtrit

from compilegate.gate.findings import Code, Note, Outcome, Reason, percent
from compilegate.job.evidence import FloatArray, IntArray

NO_EXAMPLES = 0
ROUNDING = 1e-12
"""Differences between cells, relative to the largest, that are rounding and no spread."""
BY_CHANCE = 3.0
"""Standard deviations of the baseline's seeds beyond which a loss is not chance."""
MOST_SEEDS = 10_000


@dataclass(frozen=True)
class CrossedMean:
    """The mean of a (seeds x examples) table with the two parts of its variance; or of scalars by
    seed, with no examples behind them."""

    mean: float
    seeds: int
    seed_variance: float | None
    """Squared standard error of the mean due to the choice of seeds; None with one seed."""
    seed_sd: float | None = None
    """Standard deviation over seeds of the table's row means."""
    seed_freedom: float | None = None
    """Degrees of freedom of `seed_variance`, where they are not one less than the seeds."""
    examples: int = NO_EXAMPLES
    """Rows of examples, or groups of them."""
    example_variance: float = 0.0
    """Squared standard error of the mean due to the choice of examples."""
    example_freedom: float = math.inf
    """Degrees of freedom of `example_variance`."""
    example_skewness: float = 0.0
    """The skewness of the examples' mean differences."""
    rest_variance: float = 0.0
    """The part of `seed_variance` that more examples would make smaller."""
    bias: float = 0.0
    """Bound of the mean's systematic error."""

    def expected(
        self, seeds: int | IntArray, growth: float | FloatArray | IntArray = 1.0
    ) -> CrossedMean:
        """What to expect of that many seeds, and of `growth` times as many examples, if the spread
        stays what it is. Two or more seeds must have been measured. Of arrays, with a design in
        each place, the fields are arrays too."""
        if self.seed_variance is None:
            raise ValueError("with one seed nothing is known of the spread between seeds")
        ratio = self.seeds / seeds
        between_seeds = self.seed_variance - self.rest_variance
        return replace(
            self,
            seeds=seeds,
            examples=np.rint(self.examples * growth),
            seed_variance=(between_seeds + self.rest_variance / growth) * ratio,
            rest_variance=self.rest_variance / growth * ratio,
            example_variance=self.example_variance / growth,
            example_freedom=self.example_freedom * growth,
            bias=self.bias / np.sqrt(growth),
            seed_freedom=None if self.seed_freedom is None else self.seed_freedom / ratio,
        )

    def half_width(self, confidence: float) -> float:
        """Distance from the mean to a one-sided bound at `confidence`. With one seed measured, the
        bound covers the choice of examples only."""
        return float(self.half_widths(confidence))

    def half_widths(
        self,
        confidence: float,
        seed_variance: FloatArray | None = None,
        example_variance: FloatArray | None = None,
    ) -> FloatArray:
        """The same of fields that are arrays, or of other variances than the own ones."""
        by_seed = self.seed_variance if seed_variance is None else seed_variance
        by_example = self.example_variance if example_variance is None else example_variance
        example_t = stdtrit(self.example_freedom, confidence)
        shift = abs(self.example_skewness) * (2.0 * example_t**2 + 1.0)
        example_t += shift / (6.0 * np.sqrt(np.maximum(self.examples, 1)))
        if by_seed is None:
            return example_t * np.sqrt(by_example) + self.bias
        freedom = self.seeds - 1 if self.seed_freedom is None else self.seed_freedom
        total = by_seed + by_example
        with np.errstate(over="ignore", invalid="ignore"):  # of values beyond all measure
            weighted = by_seed * stdtrit(freedom, confidence) + by_example * example_t
            quantile = weighted / np.maximum(total, np.finfo(float).tiny)  # zero without a spread
            return np.asarray(quantile * np.sqrt(total) + self.bias)


class Differences:
    """A (seeds x examples) table of paired differences that is given seed by seed, and of which
    only sums are kept: memory does not grow with the seeds."""

    def __init__(self) -> None:
        self.by_seed: list[float] = []
        self._squares = 0.0
        self._sums: FloatArray = np.zeros(1)
        self._lowest, self._highest = math.inf, -math.inf

    def add(self, row: FloatArray) -> None:
        """Take in the (examples,) differences of one more seed."""
        self.by_seed.append(float(row.mean()))
        self._squares += float(row @ row)
        self._sums = self._sums + row
        self._lowest = min(self._lowest, float(row.min()))
        self._highest = max(self._highest, float(row.max()))

    @property
    def by_example(self) -> FloatArray:
        """(examples,) means over the seeds, of which there must be one."""
        return self._sums / len(self.by_seed)

    def mean(self, one_flip: float = 0.0, bias: float = 0.0) -> CrossedMean:
        """The mean of the table, of one seed and two examples or more. `one_flip` is the change of
        one cell that the metric can resolve, zero where cells change continuously; `bias` is how
        far the mean may lie off."""
        by_example = self.by_example
        seeds, examples = len(self.by_seed), len(by_example)
        mean = float(np.mean(self.by_seed))
        largest = max(abs(self._lowest), abs(self._highest))
        constant = self._highest - self._lowest <= ROUNDING * largest  # but for rounding
        deviations = np.zeros(examples) if constant else by_example - mean
        imaginary = one_flip or float(np.abs(deviations).max())
        between_examples = float(deviations @ deviations) / (examples - 1)
        seed_variance = seed_sd = None
        rest_variance, rest_square = 0.0, 0.0
        if seeds > 1:
            seed_sd = 0.0 if constant else float(np.std(self.by_seed, ddof=1))
            rest_square = 0.0 if constant else self._rest(deviations)
            # The seeds' spread holds the rest's share too. Where it comes out smaller than the rest
            # alone explains, chance made it so: the rest is the better estimate.
            rest_variance = rest_square / (seeds * examples)
            seed_variance = max(seed_sd**2 / seeds, rest_variance)
        shown = max(between_examples - rest_square / seeds, 0.0) / examples
        return CrossedMean(
            mean=mean,
            seeds=seeds,
            examples=examples,
            seed_variance=seed_variance,
            example_variance=shown + (imaginary / examples) ** 2,
            example_freedom=_freedom(deviations, imaginary),
            seed_sd=seed_sd,
            example_skewness=skewness(deviations),
            rest_variance=rest_variance,
            bias=bias,
        )

    def _rest(self, deviations: FloatArray) -> float:
        """The mean square of what neither the seed nor the example explains."""
        seeds, examples = len(self.by_seed), len(deviations)
        by_seed = np.asarray(self.by_seed)
        explained = seeds * float(deviations @ deviations) + examples * float(by_seed @ by_seed)
        return max(self._squares - explained, 0.0) / ((seeds - 1) * (examples - 1))


def mean_of_scalars(before: FloatArray, after: FloatArray) -> CrossedMean:
    """(seeds,) scalars that have no examples behind them, after minus before: the paired t test.
    Where all seeds differ by the same number, pairs show no spread; that of the arms themselves is
    taken instead, unpaired."""
    differences, seeds = after - before, len(before)
    seed_variance = seed_sd = seed_freedom = None
    if seeds > 1:
        seed_sd = float(differences.std(ddof=1))
        seed_variance = seed_sd**2 / seeds
        if np.ptp(differences) <= ROUNDING * np.abs([before, after]).max():
            seed_sd = 0.0
            parts = [float(arm.var(ddof=1)) / seeds for arm in (before, after)]
            seed_variance, seed_freedom = sum(parts), welch_freedom(parts, [seeds, seeds])
    return CrossedMean(
        mean=float(differences.mean()),
        seeds=seeds,
        seed_variance=seed_variance,
        seed_sd=seed_sd,
        seed_freedom=seed_freedom,
    )


def welch_freedom(parts: Sequence[float], counts: Sequence[int]) -> float:
    """Degrees of freedom of the sum of squared standard errors, of so many values each."""
    total = sum(parts)
    if total == 0.0:
        return math.inf
    shares = ((part / total) ** 2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return 1.0 / sum(shares)


def skewness(deviations: FloatArray) -> float:
    """Third standardised moment of deviations from their mean; zero where there are none."""
    largest = float(np.abs(deviations).max())
    if largest == 0.0:
        return 0.0
    scaled = deviations / largest  # so that third powers cannot underflow
    squares = scaled * scaled  # products are far faster than powers
    return float(np.mean(squares * scaled) / np.mean(squares) ** 1.5)


def _freedom(deviations: FloatArray, imaginary: float) -> float:
    """Degrees of freedom of the deviations' variance, one imaginary deviation among them."""
    most = max(len(deviations) - 1.0, 1.0)
    largest = max(float(np.abs(deviations).max()), imaginary)
    if largest == 0.0:
        return most
    squares = (deviations / largest) ** 2  # scaled, so that fourth powers cannot underflow
    one = (imaginary / largest) ** 2
    total = float(squares.sum()) + one
    concentration = (float(squares @ squares) + one**2) / total**2 - 1.0 / len(deviations)
    return most if concentration <= 0.0 else min(max(2.0 / concentration, 1.0), most)


def unseen_share(examples: int, confidence: float) -> float:
    """The share of a population that is absent from a sample with a chance of 1 - confidence."""
    return -math.expm1(math.log1p(-confidence) / examples)


# Several candidates.


def level_for(count: int, confidence: float) -> float:
    """The confidence of each of `count` candidates that are judged together."""
    return 1.0 - (1.0 - confidence) / count


def holm(
    candidates: Sequence[str], confidence: float, passes: Callable[[str, float], bool]
) -> dict[str, float]:
    """The confidence at which each candidate is to be judged.

    Any of several may win. Holm's procedure (1979) keeps the chance that any wrong one passes at
    the declared level: with m candidates left, each is judged at 1 - (1 - confidence) / m; whenever
    one passes, the rest are judged again with one fewer. `passes(candidate, confidence)` must not
    become true as the confidence rises.
    """
    decided: dict[str, float] = {}
    left = list(candidates)
    while left:
        level = level_for(len(left), confidence)
        passing = [name for name in left if passes(name, level)]
        if not passing:
            return {**decided, **dict.fromkeys(left, level)}
        # All of these pass at this step already, and would at every later, milder one.
        decided.update(dict.fromkeys(passing, level))
        left = [name for name in left if name not in passing]
    return decided


# How often seeds fail: a compiler that makes one training of ten diverge may show nothing of it in
# three. What the seeds do bound is the rate (Clopper & Pearson, Biometrika 1934).


def failed_seeds(harms: Sequence[float], baseline: Sequence[float], margin: float) -> list[bool]:
    """Which of the harms by seed are failures: beyond the margin and three standard deviations of
    the baseline's own seeds."""
    chance = BY_CHANCE * float(np.std(baseline, ddof=1)) if len(baseline) > 1 else 0.0
    return [bool(harm > margin + chance) for harm in harms]


def highest_rate(seeds: int, failed: int, confidence: float) -> float:
    """The rate of failures that so many of so many seeds leave open."""
    return 1.0 if failed >= seeds else float(betaincinv(failed + 1, seeds - failed, confidence))


def lowest_rate(seeds: int, failed: int, confidence: float) -> float:
    """The rate of failures that so many of so many seeds show at least."""
    return 0.0 if not failed else float(betaincinv(failed, seeds - failed + 1, 1.0 - confidence))


def seeds_to_show(rate: float, confidence: float, failed: int = 0) -> int:
    """The seeds of which no more than `failed` may fail to show that the rate is lower."""
    counts: Iterable[int] = range(failed + 1, MOST_SEEDS)
    return next((it for it in counts if highest_rate(it, failed, confidence) <= rate), MOST_SEEDS)


def judge_failures(seeds: int, failed: int, allowed: float, confidence: float) -> Reason:
    """Whether so few of so many seeds failed that the rate is as low as the workload asks."""
    most, least = (bound(seeds, failed, confidence) for bound in (highest_rate, lowest_rate))
    numbers = {"seeds": seeds, "failed": failed, "highest_rate": most, "allowed": allowed}
    sentence = (
        f"{failed} of {seeds} seeds failed, so up to {percent(most)} of future seeds could; the "
        f"limit is {percent(allowed)} (max_failure_rate)."
    )
    outcome = Outcome.PASS if most <= allowed else Outcome.FAIL
    if least <= allowed < most:
        outcome, needed = Outcome.INCONCLUSIVE, seeds_to_show(allowed, confidence, failed)
        without = f"of which no more than {failed} fail" if failed else "without a failure"
        sentence += f" {needed:,} seeds {without} would show it."
        numbers["seeds_needed"] = needed
    return Reason(Code.SEEDS_FAILURE_RATE, outcome, sentence, numbers)


def about_few_seeds(seeds: int, confidence: float) -> list[Note]:
    """A note on rare failures, where there are fewer than five seeds."""
    if seeds >= 5:
        return []
    rate = percent(highest_rate(seeds, 0, confidence))
    sentence = (
        f"{seeds} seeds say little about rare failures: up to {rate} of future seeds could do "
        "worse than the worst one here."
    )
    return [Note(Code.SEEDS_FEW, sentence, {"seeds": seeds})]


def about_holm(candidates: int, declared: float, confidence: float) -> list[Note]:
    """A note where bounds are at another confidence than the declared one."""
    if candidates < 2 or confidence == declared:
        return []
    sentence = (
        f"{candidates} candidates compete, so this one's bounds are at {confidence * 100:.4g}% "
        f"instead of {declared * 100:.4g}% (Holm)."
    )
    numbers = {"confidence": confidence, "candidates": candidates}
    return [Note(Code.CONFIDENCE_HOLM, sentence, numbers)]
