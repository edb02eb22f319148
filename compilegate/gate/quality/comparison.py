"""Comparisons: one metric of two arms, example by example, before a confidence is chosen. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from compilegate.evidence import Examples, FloatArray, IntArray
from compilegate.gate.quality.clusters import Source, Units, neighbouring_units
from compilegate.gate.quality.metrics import (
    MetricValues,
    bias_bound,
    certain_loss,
    counts_flips,
    one_flip,
)
from compilegate.gate.settings import MetricGuard
from compilegate.gate.statistics.difference_interval import (
    NO_EXAMPLES,
    CrossedMean,
    crossed_mean,
    is_constant,
    seeds_mean,
)
from compilegate.gate.statistics.failures import failed_seeds
from compilegate.gate.statistics.lopsided import HarmTail, harm_tail
from compilegate.gate.statistics.tails import chance_of_hidden_losses, unseen_share

NO_TAIL = HarmTail()


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
    failed_seeds: tuple[bool, ...] = ()
    """Which seeds lose more than the margin and chance explain; none where it is only watched."""
    units: Units | None = None
    """What its rows go together in; None where every row is evidence of its own."""
    by_units: CrossedMean | None = None
    """`slack` by units that nobody declared and no output shows, neighbours: these make the bound
    on the harm's side wider, but no fail doubtful."""
    resolves_by_flips: bool = False
    """Whether examples flip, so that none lies further off than one flip."""
    tail: HarmTail = NO_TAIL
    """What lopsided harm adds to the bound on its side."""
    worst_example: float = 0.0
    """How much worse than its arm's mean the worst example is, of either arm, in the metric's
    units; zero where flips are counted instead, and for scalars."""
    losses_are_known: bool = False
    """Whether no example can be lost by more than `worst_example`, whatever a sample shows."""

    def half_widths(self, confidence: float) -> tuple[float, float]:
        """Distances from the mean to the bound on the harm's side, and to the one on the gain's."""
        half_width = self.slack.half_width(confidence)
        wider = 0.0
        # What is better by far needs no such care.
        if self.by_units is not None and self.slack.mean - half_width <= (self.margin or 0.0):
            wider = self.by_units.half_width(confidence)
        return max(half_width, wider) + self.tail.width(self.slack, confidence), half_width

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
        if self.margin is None or unseen <= 0.0 or unseen < self.margin:
            return False
        return not (self.losses_are_known and self._losses_would_show(confidence))

    def _losses_would_show(self, confidence: float) -> bool:
        """Whether a candidate that loses examples outright would hardly look as good as this."""
        slack, margin = self.slack, self.margin or 0.0
        if slack.seed_variance is None:
            return False
        seen = slack.example_variance - slack.imaginary_variance
        by_seeds = slack.seed_variance > seen
        chance = chance_of_hidden_losses(
            gain=slack.mean - margin,
            spread=math.sqrt(max(seen, 0.0) + slack.seed_variance),
            freedom=slack.seeds - 1.0 if by_seeds else slack.example_freedom,
            loss=self.worst_example / slack.examples,
            harm=margin,
        )
        return chance <= 1.0 - confidence


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
    labels: IntArray | None = None
    """(rows,) where the columns are rows, or `units` of them; None for other groups and scalars."""
    units: Units | None = None
    """What the columns are, where they are groups of rows."""
    worst: float = 0.0
    """How much worse one example can become, where that is known (`metrics.certain_loss`)."""


def arm_scores(
    measure: str,
    replicates: Sequence[Examples],
    values: MetricValues | None = None,
    units: Units | None = None,
) -> ArmScores:
    """One metric of an arm's replicates; `values` has those that are known already, `units` are
    what rows go together in.

    Raises MetricUndefinedError.
    """
    values = values or MetricValues()
    dealt = None if units is None else units.of_row
    table = np.stack([values.column(measure, examples, dealt) for examples in replicates])
    flip = one_flip(measure, replicates[0], table)
    labels = replicates[0].labels
    by_row = table.shape[1] == len(labels)
    found = ArmScores(
        table=table,
        rows=len(labels),
        one_flip=flip,
        counted=counts_flips(measure, flip),
        labels=labels if by_row else None,
        worst=certain_loss(measure, replicates[0]),
        bias=float(np.mean([bias_bound(measure, examples) for examples in replicates])),
    )
    return found if units is None or not by_row else _by_units(found, units)


def _by_units(arm: ArmScores, units: Units) -> ArmScores:
    """The same with units in the place of rows. A flip is that of all rows of a usual unit."""
    return replace(
        arm,
        table=np.stack([units.columns(column) for column in arm.table]),
        one_flip=arm.one_flip * units.usual_size,
        counted=arm.counted and units.are_alike,
        units=units,
        bias=arm.bias * units.inflation(),
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
    beside = _of_neighbours(baseline, candidate)
    allowed = _allowed(guard, baseline)
    slack = candidate.table - baseline.table
    slack *= sign
    harms = -(slack if slack.ndim == 1 else slack.mean(axis=1))
    tail = harm_tail(
        -slack,
        bounded=baseline.one_flip > 0.0,
        paired=_has_seeds(baseline),
        baseline=_by_seed(baseline),
        margin=float(np.mean(allowed)),
    )
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
        failed_seeds=failed_seeds(harms, _by_seed(baseline), float(np.mean(allowed)))
        if guard.margin is not None
        else (),
        units=baseline.units if beside is None else beside.over(baseline.units),
        by_units=_by_neighbours(slack, (baseline, candidate), beside),
        resolves_by_flips=baseline.one_flip > 0.0,
        tail=tail,
        worst_example=max(
            guard.worst_example or 0.0,
            *(_worst_example(arm, sign) for arm in (baseline, candidate)),
        ),
        losses_are_known=baseline.worst > 0.0 and guard.worst_example is None,
    )


def _by_seed(arm: ArmScores) -> FloatArray:
    return arm.table if arm.table.ndim == 1 else arm.table.mean(axis=1)


def _allowed(guard: MetricGuard, baseline: ArmScores) -> FloatArray | float:
    allowed = guard.margin or 0.0
    if not guard.relative:
        return allowed
    relative: FloatArray = allowed * baseline.table * np.sign(baseline.table.mean())
    return relative


def _of_neighbours(baseline: ArmScores, candidate: ArmScores) -> Units | None:
    """What neighbouring columns go together in, where they resemble each other too much to be
    evidence of their own. Columns that nobody declared, rows that repeat others, may be parts of
    something larger themselves."""
    differences = candidate.table.mean(axis=0) - baseline.table.mean(axis=0)
    units = baseline.units
    if units is None:
        if baseline.labels is None or candidate.labels is None:
            return None
        return neighbouring_units(differences, baseline.labels)
    if units.source is Source.DECLARED or baseline.labels is None:
        return None
    found = neighbouring_units(units.of_each_row(differences), baseline.labels)
    return None if found is None else units.joined(found)


def _by_neighbours(
    slack: FloatArray, arms: tuple[ArmScores, ArmScores], units: Units | None
) -> CrossedMean | None:
    if units is None:
        return None
    # Blocks that happen to hold a source's beginning and end have tails that no row has.
    before, after = (replace(_by_units(arm, units), counted=True) for arm in arms)
    return _mean(np.stack([units.columns(column) for column in slack]), before, after)


def _has_seeds(arm: ArmScores) -> bool:
    """Whether its seeds are models of their own, and not one model for all."""
    return not np.array_equal(arm.table[0], arm.table[-1])


def _mean(table: FloatArray, before: ArmScores, after: ArmScores) -> CrossedMean:
    if table.ndim == 1:
        return seeds_mean(table, largest=float(np.abs([before.table, after.table]).max()))
    # The most that biases can do: all of it in one arm, none in the other.
    bias = max(before.bias, after.bias)
    flip = min(before.one_flip, after.one_flip)  # a user's function may count in one arm only
    return crossed_mean(table, flip, counted=before.counted and after.counted, bias=bias)


def _worst_example(arm: ArmScores, sign: float) -> float:
    if arm.worst > 0.0:
        return arm.worst * float(arm.table.mean())  # no more pairs are lost than were won
    if arm.table.ndim == 1 or arm.one_flip > 0.0:
        return 0.0
    by_example = sign * arm.table.mean(axis=0)
    if is_constant(by_example):
        return 0.0
    return float(by_example.mean() - by_example.min())
