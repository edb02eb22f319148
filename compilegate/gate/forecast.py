"""Forecasts: how likely a design decides, and what would. Pure.

Before training, a design (seeds, rows, margins, candidates, least speed-up) is asked how likely a
candidate passes that is as good as the baseline and faster by the expected factor. A pilot, an
earlier verdict of the workload, gives the three variances of each metric (seed, row, rest) and the
spread of the jobs' speeds; means and variances are drawn, the gate's own half width is applied, and
passes are counted. Variances of a pilot of few seeds are uncertain themselves, so a range comes
from drawing these again. Without a pilot there are only bounds: what no evidence of such a size
can show.

After training, `to_decide` says at which size eight of ten experiments would be decided, if the
measured difference and spread stay what they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from compilegate.gate.metrics import unit_of
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.statistics import NO_EXAMPLES, CrossedMean, level_for, seeds_to_show
from compilegate.gate.verdict import CandidateVerdict, MetricJudgement, SpeedJudgement

POWER = 0.8
"""The share of the planned experiments that should be decided."""
MOST_SEEDS = 100
MOST_GROWTH = 1000.0
"""How many times the validation set may grow; more counts as never."""
_GROWTH_STEP = 1.05
WANTED = 0.9
"""The chance of passing for which the least design is told."""
MOST_FORECAST_SEEDS = 30
DRAWS, REDRAWS = 2000, 40
_FLIPS = ("accuracy", "micro_f1", "balanced_accuracy", "calibration_error")
"""Metrics of which one example moves by at least one row's share."""


@dataclass(frozen=True)
class SampleSize:
    """What would decide one comparison, each by itself; None where it would not."""

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
    spread between seeds is not known, or there is no spread at all.
    """
    if difference.seed_variance is None or difference.half_width(confidence) == 0.0:
        return SampleSize()
    more = range(difference.seeds + 1, MOST_SEEDS + 1)
    seeds = next((it for it in more if _decides(difference, confidence, seeds=it)), None)
    if difference.examples == NO_EXAMPLES:
        return SampleSize(seeds=seeds)
    # By trying, not by bisection: as the examples' share of the variance shrinks, the seeds'
    # quantile counts for more, and the bound may for a while even widen.
    steps = math.ceil(math.log(MOST_GROWTH) / math.log(_GROWTH_STEP))
    growths = (_GROWTH_STEP**step for step in range(1, steps + 1))
    growth = next((it for it in growths if _decides(difference, confidence, growth=it)), None)
    both = None
    if seeds is None and growth is None:
        for factor in range(2, MOST_SEEDS // difference.seeds + 1):
            times = difference.seeds * factor
            if _decides(difference, confidence, seeds=times, growth=factor):
                both = times, rounded_up(rows * factor)
                break
    return SampleSize(seeds, None if growth is None else rounded_up(rows * growth), both)


def _decides(
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


# Before training.


@dataclass(frozen=True)
class Design:
    """What is known of an experiment before it is run."""

    seeds: int
    candidates: int
    examples: int | None = None
    """Validation examples; None when their number is not known yet."""


@dataclass(frozen=True)
class Chance:
    """How likely an equal candidate passes by one metric, or by its speed."""

    of: str
    chance: float
    low: float
    """With `high`, what pilots of this size leave open: 80% of redrawn variances."""
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
    """How likely a candidate passes that is as good as the baseline, metric by metric, and by its
    speed if it is as fast as the pilot was. Metrics of which neither a pilot nor `expected_seed_sd`
    tells anything are left out."""
    confidence = level_for(max(design.candidates, 1), settings.confidence)
    known = {} if pilot is None else {it.metric: it for it in pilot.metrics if it.part is None}
    found = []
    for metric, guard in settings.metrics.items():
        measured = _measured(known.get(metric), guard, design)
        if guard.margin is None or measured is None or design.seeds < 2:
            continue
        measured_at = known.get(metric)
        baseline = 1.0 if measured_at is None else abs(measured_at.baseline)
        margin = guard.margin * (baseline if guard.relative else 1.0)
        growth = 1.0
        if design.examples and measured.examples:
            growth = design.examples / measured.examples
        found.append(
            _chance(metric, measured, margin, confidence, seeds=design.seeds, growth=growth)
        )
    if pilot is not None and pilot.speed is not None and design.seeds > 1:
        found += _chance_of_speed(pilot.speed, settings, design.seeds, pilot.confidence, confidence)
    return tuple(found)


def _measured(
    pilot: MetricJudgement | None, guard: MetricGuard, design: Design
) -> CrossedMean | None:
    """What is known of the spread of a metric's difference, centred on zero."""
    if pilot is not None and pilot.seed_standard_error is not None:
        return CrossedMean(
            mean=0.0,
            seeds=pilot.seeds,
            examples=pilot.examples,
            seed_variance=pilot.seed_standard_error**2,
            example_variance=pilot.example_standard_error**2,
            example_freedom=max(pilot.examples - 1.0, 1.0) if pilot.examples else math.inf,
            seed_sd=pilot.seed_sd,
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
        seed_sd=math.sqrt(2.0) * guard.expected_seed_sd,
    )


def _chance(
    metric: str,
    measured: CrossedMean,
    margin: float,
    confidence: float,
    *,
    seeds: int,
    growth: float = 1.0,
) -> Chance:
    generator = np.random.default_rng(0)
    chance = _passing(measured.expected(seeds, growth), margin, confidence, DRAWS, generator)
    redrawn = []
    for _ in range(REDRAWS):
        freedom = max(measured.seeds - 1, 1)
        scale = freedom / float(generator.chisquare(freedom))
        other = replace(
            measured,
            seed_variance=(measured.seed_variance or 0.0) * scale,
            rest_variance=measured.rest_variance * scale,
        )
        expected = other.expected(seeds, growth)
        redrawn.append(_passing(expected, margin, confidence, DRAWS // 10, generator))
    low, high = np.quantile(redrawn, [0.1, 0.9])
    more = range(2, MOST_FORECAST_SEEDS + 1)
    wanted = (it for it in more if _passes_often(measured.expected(it, growth), margin, confidence))
    rows = None
    if measured.examples:
        growths = (growth * _GROWTH_STEP ** (4 * step) for step in range(-20, 20))
        least = next(
            (
                it
                for it in growths
                if _passes_often(measured.expected(seeds, it), margin, confidence)
            ),
            None,
        )
        rows = None if least is None else rounded_up(measured.examples * least)
    return Chance(metric, chance, float(low), float(high), next(wanted, None), rows)


def _passes_often(expected: CrossedMean, margin: float, confidence: float) -> bool:
    generator = np.random.default_rng(0)
    return _passing(expected, margin, confidence, DRAWS // 4, generator) >= WANTED


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
    freedom = expected.seeds - 1
    means = generator.normal(0.0, math.sqrt(by_seed + by_row), draws)
    # As the gate does, what rows and seeds do not explain is the least that seeds spread by.
    seeds = by_seed * generator.chisquare(freedom, draws) / freedom
    seeds = np.maximum(seeds, expected.rest_variance)
    rows = np.full(draws, by_row)
    if math.isfinite(expected.example_freedom):
        free = expected.example_freedom
        rows = by_row * generator.chisquare(free, draws) / free
    passed = 0
    for mean, seed, row in zip(means.tolist(), seeds.tolist(), rows.tolist(), strict=True):
        drawn = replace(expected, seed_variance=seed, example_variance=row)
        passed += margin + mean - drawn.half_width(confidence) > 0.0
    return passed / draws


def _chance_of_speed(
    pilot: SpeedJudgement, settings: GateSettings, seeds: int, measured_at: float, confidence: float
) -> list[Chance]:
    """From the spread of the jobs' ratios, as far as the pilot's bounds show it."""
    jobs, required = pilot.seeds, pilot.required_speedup
    if jobs < 2 or required is None or pilot.conditional_on_run:
        return []
    required = max(required, settings.min_speedup)
    width = math.log(pilot.speedup.estimate) - math.log(max(pilot.speedup.lower, 1e-300))
    variance = (width / float(stdtrit(jobs - 1, measured_at))) ** 2
    spread = CrossedMean(
        mean=0.0,
        seeds=jobs,
        examples=NO_EXAMPLES,
        seed_variance=variance,
        example_variance=0.0,
        example_freedom=math.inf,
        seed_sd=math.sqrt(variance * jobs),
    )
    distance = math.log(pilot.speedup.estimate / required)
    return [_chance("speed", spread, distance, confidence, seeds=seeds)]


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
