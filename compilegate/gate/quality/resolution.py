"""Resolution: the smallest margin that a design can show, before it is run and after.

A design resolves a margin when a candidate that is exactly as good as the baseline passes in eight
of ten experiments. A smaller margin is not wrong, but the verdict will mostly be `inconclusive`,
and that can be known before anything is trained. The smallest such margin is

    (quantile at the confidence + quantile at 0.8) x standard error of the difference

with the same crossed effects and quantiles as the verdict (`difference_interval`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from compilegate.gate.quality.comparison import Comparison
from compilegate.gate.quality.noninferiority import outcome_of
from compilegate.gate.quality.units import unit_of
from compilegate.gate.reasons import Code, Note, Number, Outcome
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.statistics.difference_interval import NO_EXAMPLES, CrossedMean
from compilegate.gate.statistics.multiplicity import level_for
from compilegate.gate.statistics.sample_size import MOST_SEEDS, POWER


@dataclass(frozen=True)
class Design:
    """What is known of an experiment before it is run."""

    seeds: int
    candidates: int
    examples: int | None = None
    """Validation examples; None when their number is not known yet."""


def smallest_margin(difference: CrossedMean, confidence: float) -> float:
    """The smallest margin resolved by a design whose difference is known as well as this one's."""
    return difference.half_width(confidence) + difference.half_width(POWER)


def check_margins(settings: GateSettings, design: Design) -> tuple[str, ...]:
    """A sentence for each guarded margin: whether the design can show it, before anything has run.

    Without the number of examples the seeds alone count, and the smallest margin is truly larger.
    """
    confidence = level_for(max(design.candidates, 1), settings.confidence)
    return tuple(
        _check(metric, guard, guard.margin, design, confidence)
        for metric, guard in settings.metrics.items()
        if guard.margin is not None
    )


def below_resolution(comparison: Comparison, confidence: float) -> Note | None:
    """A note when an undecided margin is smaller than what the evidence at hand can resolve."""
    if comparison.margin is None or comparison.slack.seed_variance is None:
        return None
    if outcome_of(comparison, confidence) is not Outcome.INCONCLUSIVE:
        return None
    smallest = max(
        smallest_margin(comparison.slack, confidence), comparison.unseen_harm(confidence)
    )
    if smallest <= comparison.margin:
        return None
    unit = unit_of(comparison.metric)
    where = "" if comparison.part is None else f" where {comparison.part}"
    sentence = (
        f"{comparison.metric}{where}: the margin of {unit.amount(comparison.margin)} is below what "
        f"{comparison.slack.seeds} seeds and these examples resolve, {unit.amount(smallest)}: an "
        "equally good candidate would often be inconclusive too."
    )
    numbers: dict[str, Number] = {
        "metric": comparison.metric,
        "margin": comparison.margin,
        "smallest": smallest,
    }
    return Note(Code.MARGIN_BELOW_RESOLUTION, sentence, numbers)


def _check(
    metric: str, guard: MetricGuard, margin: float, design: Design, confidence: float
) -> str:
    if design.seeds == 1:
        return (
            f"{metric}: with one seed no margin can be shown, since the spread between seeds "
            "cannot be seen: declare two or more seeds"
        )
    if guard.expected_seed_sd is None or guard.relative:
        return f"{metric}: {_why_unknown(guard)}"
    smallest = smallest_margin(_expected(guard.expected_seed_sd, design.seeds, design), confidence)
    unit = unit_of(metric)
    found = (
        f"{metric}: {design.seeds} seeds with a standard deviation of "
        f"{unit.amount(guard.expected_seed_sd)}{_of_examples(design)} "
        f"show a margin of {unit.amount(smallest)} at best"
    )
    if smallest <= margin:
        return f"{found}; the margin is {unit.amount(margin)}"
    return (
        f"{found}, and the margin is {unit.amount(margin)}: "
        f"{_remedy(guard.expected_seed_sd, margin, design, confidence)}"
    )


def _expected(seed_sd: float, seeds: int, design: Design) -> CrossedMean:
    """The difference of two arms that agree on every example but differ by seed.

    Seeds are taken to share nothing between the arms, and examples to show the least that they
    can: one flip. Both are what is known beforehand.
    """
    flip = 0.0 if design.examples is None else 1.0 / design.examples
    return CrossedMean(
        mean=0.0,
        seeds=seeds,
        examples=design.examples or NO_EXAMPLES,
        seed_variance=2.0 * seed_sd**2 / seeds,
        example_variance=flip**2,
        example_freedom=2.0,
        seed_sd=math.sqrt(2.0) * seed_sd,
    )


def _why_unknown(guard: MetricGuard) -> str:
    if guard.relative:
        return (
            "the margin is relative, so what it comes to is known after the first run, whose "
            "report then says whether it can be shown"
        )
    return (
        "whether the margin can be shown is not known before the first run; its report has the "
        "noise floor, to be declared as expected_seed_sd"
    )


def _of_examples(design: Design) -> str:
    return "" if design.examples is None else f" and {design.examples:,} examples"


def _remedy(seed_sd: float, margin: float, design: Design, confidence: float) -> str:
    for seeds in range(design.seeds + 1, MOST_SEEDS + 1):
        if smallest_margin(_expected(seed_sd, seeds, design), confidence) <= margin:
            return f"declare about {seeds} seeds, or a larger margin"
    return f"not even {MOST_SEEDS} seeds would do: declare a larger margin"
