"""Forecasts: how likely a design decides, and what would. Pure.

Before training, how likely does a candidate pass that is as good as the baseline? A pilot, an
earlier verdict of the workload, gives the variances of each metric (seed, row, rest) and the spread
of the jobs' speeds; means and variances are drawn, the gate's own half width is applied, and passes
are counted. A pilot's variances are uncertain themselves, so a range comes from drawing these
again. Without a pilot there are only bounds: what no evidence of such a size can show.

After training, `to_decide` says at which size eight of ten experiments would be decided, if the
measured difference and spread stay what they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from compilegate.gate.metrics import BoolArray, unit_of
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.statistics import NO_EXAMPLES, CrossedMean, level_for, seeds_to_show
from compilegate.gate.verdict import CandidateVerdict, MetricJudgement, SpeedJudgement

POWER = 0.8
"""The share of the planned experiments that should be decided."""
MOST_SEEDS = 100
MOST_GROWTH = 1000.0
"""Largest growth of the validation set; more counts as never."""
_GROWTH_STEP = 1.05
_GROWTH_STEPS = math.ceil(math.log(MOST_GROWTH) / math.log(_GROWTH_STEP))
WANTED = 0.9
"""Chance of passing for which the smallest design is named."""
MOST_FORECAST_SEEDS = 30
DRAWS, REDRAWS = 2000, 40
_FLIPS = ("accuracy", "micro_f1", "balanced_accuracy", "calibration_error")
"""Metrics of which one example moves by at least one row's share."""


@dataclass(frozen=True)
class SampleSize:
    """Sizes that would decide one comparison; None where no size would."""

    seeds: int | None = None
    """Seeds of each arm, in total."""
    examples: int | None = None
    """Validation examples (of the slice, where it is one), in all; to two digits."""
    both: tuple[int, int] | None = None
    """Seeds and examples, where only more of both would."""


def resolution(difference: CrossedMean, confidence: float) -> float:
    """The smallest margin at which an equal candidate would pass in eight of ten experiments."""
    return difference.half_width(confidence) + difference.half_width(POWER)


def to_decide(difference: CrossedMean, rows: int, confidence: float) -> SampleSize:
    """What would bring the bound of the difference, as it is, to one side of zero.

    `rows` is the number of validation examples behind the difference. Nothing would where the
    spread between seeds is not known, or there is no spread at all. All sizes are tried at once: as
    one part of the variance shrinks, the other's quantile counts for more, and the bound may for a
    while even widen.
    """
    if difference.seed_variance is None or difference.half_width(confidence) == 0.0:
        return SampleSize()
    seeds = difference.seeds
    more = np.arange(seeds + 1, MOST_SEEDS + 1)
    # Seeds that are added are scored on the same examples, which draw no new chance.
    enough = _first(more, _decides(difference.expected(more), confidence, new_examples=False))
    needed = None if enough is None else int(enough)
    if difference.examples == NO_EXAMPLES:
        return SampleSize(needed)
    growths = np.power(_GROWTH_STEP, np.arange(1.0, _GROWTH_STEPS + 1.0))
    growth = _first(growths, _decides(difference.expected(seeds, growths), confidence))
    both = None
    if enough is None and growth is None:
        factors = np.arange(2, MOST_SEEDS // seeds + 1)
        planned = difference.expected(seeds * factors, factors)
        factor = _first(factors, _decides(planned, confidence))
        both = None if factor is None else (seeds * int(factor), rounded_up(rows * factor))
    return SampleSize(needed, None if growth is None else rounded_up(rows * growth), both)


def _decides(planned: CrossedMean, confidence: float, *, new_examples: bool = True) -> BoolArray:
    """(designs,) whether the bound would be on one side of zero in eight of ten experiments."""
    drawn = replace(planned, bias=0.0)
    if not new_examples:
        drawn = replace(drawn, example_variance=0.0)
    half_widths = planned.half_widths(confidence) + drawn.half_widths(POWER)
    return np.asarray(half_widths < abs(planned.mean))


def _first(sizes: npt.NDArray[Any], enough: BoolArray) -> float | None:
    """The first size that is enough; None where none is."""
    return sizes[enough.argmax()].item() if enough.any() else None


def rounded_up(count: float) -> int:
    """The count rounded up to two significant digits: an estimate is no measurement."""
    unit = int(10 ** max(math.floor(math.log10(count)) - 1, 0))
    return math.ceil(count / unit) * unit


# Before training.


@dataclass(frozen=True)
class Design:
    """The size of an experiment that has not run."""

    seeds: int
    candidates: int
    examples: int | None = None
    """Validation examples; None where they are not known."""


@dataclass(frozen=True)
class Chance:
    """The chance that an equal candidate passes by one metric, or by its speed."""

    of: str
    chance: float
    low: float
    """`low` to `high` hold 80% of the chances under redrawn variances of the pilot."""
    high: float
    seeds: int | None
    """The least seeds for a chance of 90%; None where MOST_FORECAST_SEEDS would not do."""
    examples: int | None
    """The least validation rows for it, with the declared seeds; to two digits."""


def never_passing(settings: GateSettings, design: Design) -> tuple[str, ...]:
    """A sentence for each reason why such a design passes no candidate, however equal: nothing of
    it depends on what training shows."""
    confidence = level_for(max(design.candidates, 1), settings.confidence)
    found = []
    for metric, guard in settings.metrics.items():
        needed = least_examples(metric, guard, confidence)
        if needed is not None and design.examples is not None and design.examples < needed:
            margin = unit_of(metric).amount(guard.margin or 0.0)
            found.append(
                f"metrics.{metric}: {design.examples:,} validation rows can never show a margin of "
                f"{margin}; {rounded_up(needed):,} can"
            )
    if design.seeds == 1 and settings.guarded:
        found.append("seeds: one seed can never pass; declare two or more")
    if settings.max_failure_rate is not None:
        wanted = seeds_to_show(settings.max_failure_rate, confidence)
        if wanted > design.seeds:
            found.append(
                f"max_failure_rate: {design.seeds} seeds can never show a rate of "
                f"{settings.max_failure_rate:.2g}; {wanted:,} without a failure can"
            )
    return tuple(found)


def least_examples(metric: str, guard: MetricGuard, confidence: float) -> int | None:
    """The validation rows without which not even models that agree on every row pass; None where
    that depends on the data."""
    if guard.margin is None or guard.relative or guard.reported or metric not in _FLIPS:
        return None
    # Where nothing differs, one imaginary flip is the variance, with two degrees of freedom.
    return math.floor(float(stdtrit(2.0, confidence)) / guard.margin) + 1


def forecast(
    settings: GateSettings, design: Design, pilot: CandidateVerdict | None = None
) -> tuple[Chance, ...]:
    """How likely a candidate passes that is as good as the baseline, by each metric of which a
    pilot or `expected_seed_sd` tells something, and by its speed if that is the pilot's."""
    confidence = level_for(max(design.candidates, 1), settings.confidence)
    known = {it.metric: it for it in (pilot.metrics if pilot else ()) if it.part is None}
    found = []
    for metric, guard in settings.metrics.items():
        measured, margin = _measured(known.get(metric), guard, design), guard.margin
        if margin is None or measured is None or design.seeds < 2:
            continue
        if guard.relative:  # then there is a pilot
            margin *= abs(known[metric].baseline)
        growth = 1.0
        if design.examples and measured.examples:
            growth = design.examples / measured.examples
        found.append(_chance(metric, measured, margin, confidence, (design.seeds, growth)))
    if pilot is not None and pilot.speed is not None and design.seeds > 1:
        found += _chance_of_speed(pilot.speed, settings, design.seeds, pilot.confidence, confidence)
    return tuple(found)


def _measured(
    pilot: MetricJudgement | None, guard: MetricGuard, design: Design
) -> CrossedMean | None:
    """The spread of a metric's difference, centred on zero; None where nothing is known."""
    if pilot is not None and pilot.seed_standard_error is not None:
        return CrossedMean(
            mean=0.0,
            seeds=pilot.seeds,
            examples=pilot.examples,
            seed_variance=pilot.seed_standard_error**2,
            example_variance=pilot.example_standard_error**2,
            example_freedom=max(pilot.examples - 1.0, 1.0) if pilot.examples else math.inf,
            example_skewness=pilot.skewness or 0.0,
            rest_variance=(pilot.rest_standard_error or 0.0) ** 2,
        )
    if guard.expected_seed_sd is None or guard.relative:
        return None
    # Arms that agree on every example, and whose seeds share nothing: what is known beforehand.
    flip = 1.0 / design.examples if design.examples else 0.0
    return CrossedMean(
        mean=0.0,
        seeds=design.seeds,
        examples=design.examples or NO_EXAMPLES,
        seed_variance=2.0 * guard.expected_seed_sd**2 / design.seeds,
        example_variance=flip**2,
        example_freedom=2.0,
    )


def _chance(
    of: str,
    measured: CrossedMean,
    margin: float,
    confidence: float,
    size: tuple[int, float],
) -> Chance:
    """`size` is the seeds, and how many times the measured examples there are."""
    seeds, growth = size
    expected, generator = measured.expected(seeds, growth), np.random.default_rng(0)
    chance = _passing(expected, margin, confidence, DRAWS, generator)
    redrawn = []
    for _ in range(REDRAWS):
        freedom = max(measured.seeds - 1, 1)
        scale = freedom / float(generator.chisquare(freedom))
        other = replace(
            expected,
            seed_variance=(expected.seed_variance or 0.0) * scale,
            rest_variance=expected.rest_variance * scale,
        )
        redrawn.append(_passing(other, margin, confidence, DRAWS // 10, generator))
    low, high = np.quantile(redrawn, [0.1, 0.9])

    def passes_often(seeds: int, growth: float) -> bool:
        planned, generator = measured.expected(seeds, growth), np.random.default_rng(0)
        return _passing(planned, margin, confidence, DRAWS // 4, generator) >= WANTED

    more = (it for it in range(2, MOST_FORECAST_SEEDS + 1) if passes_often(it, growth))
    growths = [growth * _GROWTH_STEP ** (4 * step) for step in range(-20, 20)]
    least = next((it for it in growths if measured.examples and passes_often(seeds, it)), None)
    rows = None if least is None else rounded_up(measured.examples * least)
    return Chance(of, chance, float(low), float(high), next(more, None), rows)


def _passing(
    expected: CrossedMean,
    margin: float,
    confidence: float,
    draws: int,
    generator: np.random.Generator,
) -> float:
    """The share of draws in which the gate's own half width leaves the difference within the
    margin."""
    by_seed, by_row = expected.seed_variance or 0.0, expected.example_variance
    freedom, free = expected.seeds - 1, expected.example_freedom
    means = generator.normal(0.0, math.sqrt(by_seed + by_row), draws)
    seeds = by_seed * generator.chisquare(freedom, draws) / freedom
    rows = np.full(draws, by_row)
    if math.isfinite(free):
        rows = by_row * generator.chisquare(free, draws) / free
    # As the gate does, what rows and seeds do not explain is the least that seeds spread by.
    seeds = np.maximum(seeds, expected.rest_variance)
    return float(np.mean(margin + means - expected.half_widths(confidence, seeds, rows) > 0.0))


def _chance_of_speed(
    pilot: SpeedJudgement, settings: GateSettings, seeds: int, measured_at: float, confidence: float
) -> list[Chance]:
    """The chance of passing by speed, from the spread of the jobs' ratios in the pilot's bounds."""
    jobs, required = pilot.seeds, pilot.required_speedup
    if jobs < 2 or required is None or pilot.conditional_on_run:
        return []
    required = max(required, settings.min_speedup)
    width = math.log(pilot.speedup.estimate) - math.log(max(pilot.speedup.lower, 1e-300))
    variance = (width / float(stdtrit(jobs - 1, measured_at))) ** 2
    spread = CrossedMean(mean=0.0, seeds=jobs, seed_variance=variance)
    distance = math.log(pilot.speedup.estimate / required)
    return [_chance("speed", spread, distance, confidence, (seeds, 1.0))]


def in_words(chance: Chance) -> str:
    """The forecast of one metric, or of the speed, in a sentence without its subject."""
    range_ = f"{chance.low:.0%} to {chance.high:.0%}"
    sentence = f"an equal candidate passes with a chance of {chance.chance:.0%} ({range_})"
    if chance.chance >= WANTED:
        return sentence
    ways = [f"{chance.seeds} seeds"] if chance.seeds is not None else []
    ways += [f"{chance.examples:,} validation rows"] if chance.examples is not None else []
    if not ways:
        return f"{sentence}; no number of seeds or rows makes it 90%, only a larger margin"
    return f"{sentence}; about {' or '.join(ways)} would make it 90%"
