"""Comparisons: one metric of two arms, example by example, before a confidence is chosen. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compilegate.evidence import Examples, FloatArray
from compilegate.gate.quality.metrics import MetricValues, bias_bound, counts_flips, one_flip
from compilegate.gate.settings import MetricGuard
from compilegate.gate.statistics.difference_interval import (
    NO_EXAMPLES,
    CrossedMean,
    crossed_mean,
    is_constant,
    seeds_mean,
)
from compilegate.gate.statistics.tails import unseen_share


@dataclass(frozen=True)
class Comparison:
    """One metric of two arms, before a confidence is chosen."""

    metric: str
    guard: MetricGuard
    part: str | None
    """The slice, in words; None for all examples."""
    baseline: float
    candidate: float
    margin: float | None
    """In the metric's units; None when only watched."""
    slack: CrossedMean
    """What must stay above zero: margin minus harm; without a margin, minus harm."""
    rows: int
    """Validation examples behind it; NO_EXAMPLES for a scalar that was only reported."""
    against: str = "the baseline"
    """What the candidate is compared with, in words."""
    worst_example: float = 0.0
    """How much worse than its arm's mean the worst example is, of either arm, in the metric's
    units; zero where flips are counted instead, and for scalars."""

    def unseen_harm(self, confidence: float) -> float:
        """The harm that the validation set need not show, being in examples that it has none of."""
        if self.worst_example == 0.0:
            return 0.0
        return unseen_share(self.slack.examples, confidence) * self.worst_example

    @property
    def has_no_spread(self) -> bool:
        """Whether nothing shows how uncertain the difference is, which is not certainty.

        Where models agree on examples that are not all alike, the worst example does (`tails`,
        "Unseen"): however close their outputs, what no example shows is bounded by it.
        """
        slack = self.slack
        varies = bool(slack.seed_variance) or slack.example_variance > 0.0
        return not varies and self.worst_example == 0.0

    def hides_harm(self, confidence: float) -> bool:
        """Whether a harm beyond the margin could be such."""
        unseen = self.unseen_harm(confidence)
        return self.margin is not None and unseen > 0.0 and unseen >= self.margin


@dataclass(frozen=True)
class ArmScores:
    """One metric of one arm, replicate by replicate."""

    table: FloatArray
    """(seeds, examples) values whose mean is the arm's metric, or (seeds,) reported scalars. The
    columns may be groups of examples."""
    rows: int = NO_EXAMPLES
    """Validation examples behind the table."""
    one_flip: float = 0.0
    """The change of one cell that the metric can resolve (`metrics.one_flip`)."""
    counted: bool = False
    """Whether cells change by flips only (`metrics.counts_flips`)."""
    bias: float = 0.0
    """How far the metric may lie off its truth (`metrics.bias_bound`)."""


def arm_scores(
    measure: str, replicates: Sequence[Examples], values: MetricValues | None = None
) -> ArmScores:
    """One metric of an arm's replicates; `values` has those that are known already.

    Raises MetricUndefinedError.
    """
    values = values or MetricValues()
    table = np.stack([values.column(measure, examples) for examples in replicates])
    flip = one_flip(measure, replicates[0], table)
    return ArmScores(
        table=table,
        rows=len(replicates[0].labels),
        one_flip=flip,
        counted=counts_flips(measure, flip),
        bias=float(np.mean([bias_bound(measure, examples) for examples in replicates])),
    )


def mean_difference(after: ArmScores, before: ArmScores) -> CrossedMean:
    """The mean of after minus before, and how sure one can be of it."""
    return _mean(after.table - before.table, before, after)


def compare_scores(
    metric: str,
    guard: MetricGuard,
    baseline: ArmScores,
    candidate: ArmScores,
    part: str | None = None,
    *,
    against: str = "the baseline",
) -> Comparison:
    """Hold a candidate's scores against the baseline's; both have one shape."""
    sign = 1.0 if guard.direction == "higher" else -1.0
    allowed: FloatArray | float = guard.margin or 0.0
    if guard.relative:
        allowed = allowed * baseline.table * np.sign(baseline.table.mean())
    slack = candidate.table - baseline.table
    slack *= sign
    slack += allowed
    return Comparison(
        metric=metric,
        guard=guard,
        part=part,
        baseline=float(baseline.table.mean()),
        candidate=float(candidate.table.mean()),
        margin=None if guard.margin is None else float(np.mean(allowed)),
        slack=_mean(slack, baseline, candidate),
        rows=baseline.rows,
        against=against,
        worst_example=max(_worst_example(arm, sign) for arm in (baseline, candidate)),
    )


def _mean(table: FloatArray, before: ArmScores, after: ArmScores) -> CrossedMean:
    if table.ndim == 1:
        return seeds_mean(table, largest=float(np.abs([before.table, after.table]).max()))
    # The most that biases can do: all of it in one arm, none in the other.
    bias = max(before.bias, after.bias)
    flip = min(before.one_flip, after.one_flip)  # a user's function may count in one arm only
    return crossed_mean(table, flip, counted=before.counted and after.counted, bias=bias)


def _worst_example(arm: ArmScores, sign: float) -> float:
    if arm.table.ndim == 1 or arm.one_flip > 0.0:
        return 0.0
    by_example = sign * arm.table.mean(axis=0)
    if is_constant(by_example):
        return 0.0
    return float(by_example.mean() - by_example.min())
