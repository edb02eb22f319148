"""Forecasts: what can never pass, how likely a design passes, and what would decide."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from compilegate.gate.findings import Outcome
from compilegate.gate.forecast import (
    Design,
    SampleSize,
    forecast,
    least_examples,
    never_passing,
    to_decide,
)
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.statistics import CrossedMean, Differences, mean_of_scalars
from compilegate.job.evidence import Examples
from tests.gate.conftest import build_execution
from tests.gate.test_quality import compared, judged
from tests.gate.test_quality import replicate as binary


def settings_of(**metrics: Any) -> GateSettings:
    failure = metrics.pop("max_failure_rate", None)
    return GateSettings.model_validate({"metrics": metrics, "max_failure_rate": failure})


def accuracy(margin: float, **more: Any) -> dict[str, Any]:
    return {"direction": "higher", "margin": margin, **more}


# Without a pilot there are only bounds.


def test_one_seed_and_a_rate_of_failures_can_never_pass() -> None:
    declared = settings_of(accuracy=accuracy(0.01), max_failure_rate=0.1)
    found = never_passing(declared, Design(1, 1, 1000))
    assert [it.partition(":")[0] for it in found] == ["seeds", "max_failure_rate"]
    assert never_passing(declared, Design(29, 1, 1000)) == ()
    # Several candidates are judged at a higher confidence.
    assert never_passing(declared, Design(29, 3, 1000)) != ()


@pytest.mark.parametrize(("margin", "least"), [(0.05, 59), (0.02, 146), (0.01, 292)])
def test_the_least_rows_are_where_models_that_agree_on_all_begin_to_pass(margin, least) -> None:
    """50 rows can never show 5 points."""
    assert least_examples("accuracy", MetricGuard(**accuracy(margin)), 0.95) == least
    for rows, outcome in ((least - 2, Outcome.INCONCLUSIVE), (least + 1, Outcome.PASS)):
        same = [binary(np.arange(rows) % 10 > 0)] * 3
        assert judged("accuracy", accuracy(margin), same, same)[0].outcome is outcome
    declared = settings_of(accuracy=accuracy(margin))
    (never,) = never_passing(declared, Design(3, 1, least - 1))
    assert never.startswith("metrics.accuracy: ")
    assert (
        never_passing(declared, Design(3, 1, least)) == never_passing(declared, Design(3, 1)) == ()
    )


@pytest.mark.parametrize(
    ("metric", "guard"),
    [
        ("accuracy", accuracy(0.01, relative=True)),
        ("accuracy", accuracy(0.01, reported=True)),
        ("log_loss", {"direction": "lower", "margin": 0.01}),
    ],
)
def test_nothing_is_known_beforehand_of_what_depends_on_the_data(metric, guard) -> None:
    assert never_passing(settings_of(**{metric: guard}), Design(3, 1, 10)) == ()


# With a pilot.


def drawn(number: int, *, seeds: int, rows: int, seed_sd: float) -> list[list[Examples]]:
    """Two arms that are equally good: seeds of differing quality, rows that are hard for all."""
    generator = np.random.default_rng([number, seeds, rows])
    easy = generator.random(rows) < 0.9
    arms = []
    for _ in range(2):
        shares = (0.02 + generator.normal(0.0, seed_sd, seeds)).clip(0.0, 1.0)
        arms.append([binary(easy & (generator.random(rows) >= share)) for share in shares])
    return arms


def piloted(guard: dict[str, Any], **design: Any) -> Any:
    """An earlier verdict's candidate, with the metric as it was judged then."""
    judgement, _ = judged("accuracy", guard, *drawn(10**6, **design))
    verdict = build_execution(examples=100).judge()
    return dataclasses.replace(verdict.candidates[0], metrics=(judgement,), speed=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "rows", "seed_sd", "margin"),
    [
        (3, 1000, 0.01, 0.03),
        (2, 2000, 0.005, 0.03),
        (8, 1000, 0.01, 0.012),
    ],
)
def test_the_chance_agrees_with_what_the_gate_does_within_12_points(
    seeds, rows, seed_sd, margin
) -> None:
    guard = {"accuracy": accuracy(margin)}
    pilot = piloted(guard["accuracy"], seeds=20, rows=rows, seed_sd=seed_sd)
    (chance,) = forecast(settings_of(**guard), Design(seeds, 1, rows), pilot)
    passed = 0
    for number in range(300):
        arms = drawn(number, seeds=seeds, rows=rows, seed_sd=seed_sd)
        passed += compared(guard, *arms).comparisons[0].outcome(0.95) is Outcome.PASS
    assert chance.chance == pytest.approx(passed / 300, abs=0.12)
    assert chance.low <= chance.high


def test_more_seeds_rows_and_margin_make_it_likelier_and_the_least_are_named() -> None:
    design = {"seeds": 20, "rows": 1000, "seed_sd": 0.006}

    def chance(margin: float, seeds: int, rows: int, candidates: int = 1) -> Any:
        guard = accuracy(margin)
        pilot = piloted(guard, **design)
        return forecast(settings_of(accuracy=guard), Design(seeds, candidates, rows), pilot)[0]

    usual = chance(0.015, 3, 1000)
    assert usual.chance < chance(0.015, 10, 1000).chance
    assert usual.chance < chance(0.03, 3, 1000).chance
    assert chance(0.015, 3, 1000, candidates=4).chance < usual.chance
    assert usual.seeds is not None
    assert chance(0.015, usual.seeds, 1000).chance >= 0.85
    assert chance(0.015, max(usual.seeds - 2, 2), 1000).chance < 0.95


def test_a_spread_that_the_workload_declares_takes_a_pilot_s_place() -> None:
    for spread, least, most in ((0.002, 0.9, 1.0), (0.02, 0.0, 0.2)):
        guard = accuracy(0.01, expected_seed_sd=spread)
        (chance,) = forecast(settings_of(accuracy=guard), Design(5, 1, 2000))
        assert least <= chance.chance <= most
    assert forecast(settings_of(accuracy=accuracy(0.01)), Design(5, 1, 2000)) == ()


def test_the_speed_is_forecast_from_the_spread_of_the_jobs() -> None:
    """The pilot's own design passes as often as executions of its kind do."""
    execution = build_execution(examples=100, speedup=1.3, seeds=(1, 2, 3, 4, 5, 6))
    generator = np.random.default_rng(0)
    for arm, seed in list(execution.records):
        factor = generator.lognormal(0.0, 0.04)
        execution.alter(arm, seed, steps__seconds=factor * execution.seconds(arm, seed))
    (pilot,) = execution.judge().candidates
    settings = execution.experiment.settings
    own, many = (
        next(
            it.chance for it in forecast(settings, Design(seeds, 1, 100), pilot) if it.of == "speed"
        )
        for seeds in (6, 20)
    )
    assert many > own > 0.5


# After training.


def table(seeds: int, examples: int, *, seed_sd: float, shift: float) -> CrossedMean:
    """Differences whose mean is `shift` exactly, with a spread over examples of one."""
    draw = np.random.default_rng(1)
    rows = draw.normal(0.0, seed_sd, (seeds, 1)) + draw.normal(size=examples)
    rows = rows + draw.normal(0.0, 0.3, (seeds, examples))
    differences = Differences()
    for row in rows - rows.mean() + shift:
        differences.add(row)
    return differences.mean()


@pytest.mark.parametrize(
    ("seed_sd", "shift", "which"),
    [
        (0.0, 0.06, "examples"),
        (0.1, 0.1, "seeds"),
        (0.06, 0.09, "either"),
        (0.06, 0.05, "both"),
        (0.2, 0.03, "nothing"),
    ],
)
def test_what_dominates_the_spread_is_what_has_to_grow(seed_sd, shift, which) -> None:
    difference = table(4, 400, seed_sd=seed_sd, shift=shift)
    assert abs(difference.mean) < difference.half_width(0.95)
    found = to_decide(difference, 400, 0.95)
    assert (found.seeds is not None) == (which in ("seeds", "either"))
    assert (found.examples is not None) == (which in ("examples", "either"))
    assert (found.both is not None) == (which == "both")


@pytest.mark.slow
def test_eight_of_ten_experiments_of_that_size_are_decided() -> None:
    """A scalar over seeds, drawn here and not by the gate."""
    found = to_decide(mean_of_scalars(np.zeros(3), np.array([0.00, 0.02, 0.04])), 0, 0.95)
    assert found.examples is None
    draw = np.random.default_rng(9)
    draws = draw.normal(0.02, 0.02, (2000, found.seeds))
    again = [mean_of_scalars(np.zeros(found.seeds), each) for each in draws]
    decided = np.mean([abs(each.mean) > each.half_width(0.95) for each in again])
    assert decided == pytest.approx(0.8, abs=0.05)


def test_nothing_is_named_where_the_spread_is_not_known() -> None:
    one_seed = table(1, 400, seed_sd=0.0, shift=0.0)
    same_everywhere = mean_of_scalars(np.zeros(2), np.zeros(2))
    assert to_decide(one_seed, 400, 0.95) == to_decide(same_everywhere, 0, 0.95) == SampleSize()
