"""The expected outcome of an option: time by Amdahl's law, dollars by the machines' price. Pure.

Only the parts of a step that an option attacks get faster. With shares that are not known the range
is wide, and that is the point: a ceiling that nobody measured is no ground for a promise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from compilegate.advice.known.facts import Facts
from compilegate.advice.ranges import NOTHING, UNCHANGED, Range, over_corners
from compilegate.advice.rules import Part, rules

WEEKS_PER_YEAR = 365 / 7


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What an option does to a run."""

    attacked: Range
    """The share of a run that gets faster, from 0 to 1."""
    speedup: Range
    """How many times as fast that share gets."""
    compile_seconds: Range = NOTHING
    price_factor: Range = UNCHANGED
    """What an hour costs, as a multiple of the present price."""
    price_known: bool = True
    """False: nobody knows what its machine costs, and the factor says nothing."""


@dataclass(frozen=True, kw_only=True)
class Repayment:
    """When a benchmark has paid for itself, at best and at worst."""

    runs_at_best: int | None
    """None: never."""
    runs_at_worst: int | None
    weeks_at_best: float | None
    weeks_at_worst: float | None


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What asking costs: one epoch of the baseline, one of the option at the same batch and, for a
    compiler, one at a larger batch."""

    trainings: int
    """0: it has been made already."""
    hours: Range | None
    """One job with all trainings together; None: the length of a run is not known."""
    usd: Range | None
    engineer_hours: Range
    engineer_usd: Range

    @property
    def total_usd(self) -> Range | None:
        """Machines and people."""
        return None if self.usd is None else self.usd + self.engineer_usd


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an option is expected to change, each as a range. Positive is saved. None: a fact that
    it follows from is not known."""

    speedup: Range
    """The whole run without compiling, old time over new."""
    saved_share: Range
    """The share of a run's time; compiling is taken off where a run's length is known."""
    saved_hours: Range | None
    saved_usd: Range | None
    saved_hours_per_year: Range | None
    saved_usd_per_year: Range | None
    first_year_usd: Range | None
    """After the benchmark, people included."""
    benchmark: Benchmark
    repayment: Repayment | None
    """None: what is saved or what it costs is not known."""


def share_of(parts: Mapping[Part, Range], attacked: tuple[Part, ...]) -> Range:
    """The share of a step that these parts take, given that all parts add up to one."""
    own = [parts[part] for part in parts if part in attacked]
    others = [parts[part] for part in parts if part not in attacked]
    low = max(sum(each.low for each in own), 1.0 - sum(each.high for each in others))
    high = min(sum(each.high for each in own), 1.0 - sum(each.low for each in others))
    low, high = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
    return Range(min(low, high), high) if own else NOTHING


def time_ratio(effect: Effect) -> Range:
    """New time over old, without compiling: Amdahl's law at the ends."""
    return over_corners(
        lambda share, speedup: 1.0 - share + share / speedup, effect.attacked, effect.speedup
    )


def outcome_of(
    facts: Facts,
    effect: Effect,
    *,
    trainings: int,
    engineer_hours: Range,
) -> Outcome:
    """The outcome of an effect for a workload. `trainings` is how many a benchmark takes."""
    ratio = time_ratio(effect)
    hours, runs, price = facts.hours.value, facts.runs_per_week.value, facts.usd_per_run_hour
    compiling = effect.compile_seconds.times(1 / 3600)
    saved_hours = saved_usd = None
    share = Range(1.0 - ratio.high, 1.0 - ratio.low)
    if hours is not None:
        saved_hours = over_corners(
            lambda run, new, extra: run - run * new - extra, hours, ratio, compiling
        )
        share = over_corners(
            lambda run, new, extra: 1.0 - new - extra / run, hours, ratio, compiling
        )
        if price is not None and effect.price_known:
            saved_usd = over_corners(
                lambda run, new, extra, factor: price * (run - (run * new + extra) * factor),
                hours,
                ratio,
                compiling,
                effect.price_factor,
            )
    runs_per_year = None if runs is None else runs * WEEKS_PER_YEAR
    yearly_hours = _times(saved_hours, runs_per_year)
    yearly_usd = _times(saved_usd, runs_per_year)
    benchmark = _benchmark(facts, ratio, effect, trainings, engineer_hours)
    total = benchmark.total_usd
    return Outcome(
        speedup=Range(1.0 / ratio.high, 1.0 / ratio.low),
        saved_share=share,
        saved_hours=saved_hours,
        saved_usd=saved_usd,
        saved_hours_per_year=yearly_hours,
        saved_usd_per_year=yearly_usd,
        first_year_usd=None if yearly_usd is None or total is None else yearly_usd - total,
        benchmark=benchmark,
        repayment=None if saved_usd is None or total is None else _repaid(total, saved_usd, runs),
    )


def _times(amount: Range | None, factor: float | None) -> Range | None:
    return None if amount is None or factor is None else amount.times(factor)


def _benchmark(
    facts: Facts, ratio: Range, effect: Effect, trainings: int, engineer_hours: Range
) -> Benchmark:
    people, rate = engineer_hours, rules().thresholds.usd_per_engineer_hour
    if facts.engineer_hours is not None and trainings:
        people = Range.exactly(facts.engineer_hours)
    if facts.usd_per_engineer_hour is not None:
        rate = Range.exactly(facts.usd_per_engineer_hour)
    hours, price = facts.hours.value, facts.usd_per_run_hour
    spent = usd = None
    if not trainings:
        spent, usd = NOTHING, NOTHING
    elif hours is not None:
        epochs = facts.epochs.value
        epoch = rules().thresholds.epoch_of_a_run if epochs is None else Range.exactly(1 / epochs)
        compiling = effect.compile_seconds.times(1 / 3600)
        old = hours.times(epoch)
        new = old.times(ratio) + compiling
        spent = old + new.times(trainings - 1)
        if price is not None and effect.price_known:
            usd = (old + new.times(effect.price_factor).times(trainings - 1)).times(price)
    return Benchmark(
        trainings=trainings,
        hours=spent,
        usd=usd,
        engineer_hours=people,
        engineer_usd=people.times(rate),
    )


def _repaid(cost: Range, saved: Range, runs_per_week: float | None) -> Repayment:
    best, worst = _runs(cost.low, saved.high), _runs(cost.high, saved.low)
    return Repayment(
        runs_at_best=best,
        runs_at_worst=worst,
        weeks_at_best=None if best is None or not runs_per_week else best / runs_per_week,
        weeks_at_worst=None if worst is None or not runs_per_week else worst / runs_per_week,
    )


MOST_RUNS = 1_000_000
"""More than that counts as never."""


def _runs(cost: float, saved: float) -> int | None:
    if cost <= 0.0 <= saved:
        return 0
    if saved <= 0.0 or cost / MOST_RUNS > saved:
        return None
    return math.ceil(cost / saved)
