"""Cost: dollars only where they are known, and when the gate is repaid; memory: of one kind."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from compilegate.gate.cost import retrainings_to_repay
from compilegate.gate.findings import Code, Outcome
from compilegate.gate.observations import observe
from compilegate.gate.settings import ArmDeclaration
from compilegate.gate.verdict import Amount, ArmCost, Verdict
from compilegate.job.evidence import (
    CheckpointRecord,
    CompileCacheRecord,
    PairedSpeedRecord,
    ParityRecord,
)

G5, P5 = "ml.g5.xlarge", "ml.p5.48xlarge"
SIZES = {"baseline_batch_size": 32, "candidate_batch_size": 32, "steps_per_block": 0}


def take(execution: Any, arm: str, *, train: float, total: float) -> None:
    """Let every job of an arm have taken these seconds."""
    for seed in execution.experiment.seeds:
        record = execution.record(arm, seed)
        times = {"train_seconds": train, "total_seconds": total}
        waited = train - float(record.steps.seconds.sum())
        execution.change_evidence(
            arm,
            seed,
            speed=dataclasses.replace(record.evidence.speed, **times),
            checkpoints=CheckpointRecord(written=1, seconds=waited, ignored=None),
        )
        # The seconds of a parity probe would be part of the gate's cost.
        execution.without_parity(arm, seed)


def cost(verdict: Verdict, arm: str) -> ArmCost:
    assert verdict.cost is not None
    return next(item for item in verdict.cost.arms if item.arm == arm)


@pytest.fixture
def priced(execution):
    """Three seeds an arm; 100 s of training without a compiler, 55 s with; 3.60 dollars an hour."""
    for arm, train in (("baseline", 100.0), ("fast", 55.0)):
        take(execution, arm, train=train, total=train + 20.0)
        execution.alter_all(arm, environment__instance_type=G5)
        execution.declare(arm, instance_type=G5, usd_per_hour=3.6, price_note="in 2026-08")
    return execution


def test_dollars_are_measured_seconds_times_the_price_and_some_retrainings_repay(priced) -> None:
    verdict = priced.judge()
    fast, figures = cost(verdict, "fast"), verdict.cost
    assert cost(verdict, "baseline").job.usd == pytest.approx(0.12)
    assert (fast.training.usd, fast.price_note) == (pytest.approx(0.055), "in 2026-08")
    assert fast.samples_per_dollar == pytest.approx(fast.samples_per_second * 1000.0)
    # Every job but one of the baseline's.
    assert figures.gate.seconds == pytest.approx(2 * 120.0 + 3 * 75.0)
    assert figures.gate.usd == pytest.approx(0.465)
    assert (figures.jobs_counted, figures.jobs_not_counted) == (6, 0)
    (candidate,) = figures.candidates
    assert (candidate.saved.seconds, candidate.saved.usd) == pytest.approx((45.0, 0.045))
    assert (candidate.retrainings_to_repay, candidate.repaid_in) == (11, "dollars")
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_a_retraining_pays_the_warm_compilation_where_some_jobs_filled_the_cache(priced) -> None:
    for seed, (state, seconds) in enumerate([("cold", 30.0), *[("warm", 6.0)] * 2], start=1):
        cache = CompileCacheRecord(state, "why", "0" * 64, 0, 0, 0, 0)
        times = {"compiler__compile_seconds": seconds, "speed__train_seconds": 40.0 + seconds}
        priced.alter("fast", seed, compile_cache=cache, **times)
    verdict = priced.judge()
    assert cost(verdict, "fast").training.seconds == pytest.approx(40.0 + (30.0 + 2 * 6.0) / 3)
    assert cost(verdict, "fast").retraining.seconds == pytest.approx(46.0)
    assert verdict.cost.candidates[0].saved.seconds == pytest.approx(100.0 - 46.0)


def test_what_saves_nothing_never_repays_the_gate(priced) -> None:
    """By seconds, or by dollars on a dearer instance."""
    priced.alter_all("fast", environment__instance_type=P5)
    priced.declare("fast", instance_type=P5, usd_per_hour=7.2)
    candidate = priced.judge().cost.candidates[0]
    assert (candidate.saved.seconds, candidate.saved.usd) == pytest.approx((45.0, -0.01))
    assert candidate.retrainings_to_repay is None
    take(priced, "fast", train=130.0, total=150.0)
    candidate = priced.judge().cost.candidates[0]
    assert candidate.saved.seconds == pytest.approx(-30.0)
    assert candidate.retrainings_to_repay is None


def test_a_price_is_not_put_on_the_seconds_of_another_machine(execution, priced) -> None:
    priced.alter_all("baseline", environment__instance_type="ml.g5.2xlarge")
    assert cost(priced.judge(), "baseline").job.usd is None
    priced.declare("fast", usd_per_hour=None, price_note="the catalog has no price of it")
    verdict = priced.judge()
    assert cost(verdict, "fast").job == Amount(pytest.approx(75.0), None)
    assert "the catalog has no price of it" in cost(verdict, "fast").price_note
    # The sum is unknown, and seconds are what is left to count by.
    assert verdict.cost.gate.usd is None
    candidate = verdict.cost.candidates[0]
    assert (candidate.retrainings_to_repay, candidate.repaid_in) == (11, "seconds")


def test_a_local_run_declares_an_instance_and_does_not_run_on_it(execution) -> None:
    for arm in ("baseline", "fast"):
        take(execution, arm, train=60.0, total=80.0)
        execution.declare(arm, instance_type=G5, usd_per_hour=3.6)
    figures = execution.judge().cost
    assert figures.gate == Amount(seconds=pytest.approx(5 * 80.0), usd=None)
    for arm in figures.arms:
        assert (arm.job.usd, arm.samples_per_dollar, arm.usd_per_hour) == (None, None, None)


@pytest.mark.parametrize("price", [0, -1.0, math.nan, math.inf, 1e9, None])
def test_a_declared_price_is_that_of_an_instance(price) -> None:
    arm = {"compiler": "eager", "batch_size": 8, "learning_rate": 0.1, "precision": "fp32"}
    found = {"usd_per_hour": 2.0} if price is None else {"usd_per_hour": price, "instance_type": G5}
    with pytest.raises(ValidationError, match="usd_per_hour"):
        ArmDeclaration(**arm, **found)


def test_probes_are_part_of_what_a_job_costs_unless_they_are_implausible(priced) -> None:
    parity = ParityRecord("fp32", 0, 9.0, obstacle="not comparable")
    pairs = PairedSpeedRecord(6.0, "eager", **SIZES, obstacle="not comparable")
    priced.alter_all("fast", parity=parity, paired_speed=pairs)
    fast = cost(priced.judge(), "fast")
    assert (fast.job.seconds, fast.training.seconds) == pytest.approx((90.0, 55.0))
    priced.alter("fast", 1, parity__seconds=1e300)
    verdict = priced.judge()
    assert Code.EVIDENCE_UNREADABLE in {reason.code for reason in verdict.candidates[0].reasons}
    assert verdict.cost.jobs_not_counted == 1
    assert math.isfinite(verdict.cost.gate.seconds)


def test_jobs_without_valid_evidence_are_left_out_and_counted(priced) -> None:
    del priced.records["fast", 2]
    figures = priced.judge().cost
    assert (figures.jobs_counted, figures.jobs_not_counted) == (5, 1)
    assert figures.gate.seconds == pytest.approx(2 * 120.0 + 2 * 75.0)
    priced.records.clear()
    assert priced.judge().cost is None


@pytest.mark.parametrize(("speedup", "breaks"), [(1.5, True), (0.8, False)])
def test_break_even_in_runs_is_its_steps_over_those_of_a_run(
    new_execution, speedup, breaks
) -> None:
    verdict = new_execution(speedup=speedup).judge()
    run, runs = verdict.candidates[0].speed.run, verdict.cost.candidates[0].break_even_runs
    assert runs == (pytest.approx(run.break_even_steps / 60) if breaks else None)


AMOUNTS = st.floats(0.01, 1e7)


@given(gate=AMOUNTS, saved=st.one_of(AMOUNTS, st.floats(-1e7, 0.0)))
def test_the_gate_is_repaid_by_the_last_retraining_and_not_by_the_one_before(gate, saved) -> None:
    count, _ = retrainings_to_repay(Amount(gate, None), Amount(saved, None))
    if count is None:
        assert saved <= 0.0 or gate / saved > 999_999
    else:
        assert count * saved >= gate * (1 - 1e-9)
        assert (count - 1) * saved < gate * (1 + 1e-9)


# What would decide.


def test_what_more_seeds_and_rows_would_cost_is_told_where_they_would_decide(new_execution) -> None:
    verdict = new_execution(worse_by=0.006).judge()
    (candidate,) = verdict.candidates
    needed = max(item.seeds_needed for item in candidate.metrics if item.seeds_needed is not None)
    more = verdict.cost.candidates[0].more_seeds
    job = sum(arm.job.seconds for arm in verdict.cost.arms)
    assert (more.seeds, more.amount.seconds) == (needed - 3, pytest.approx((needed - 3) * job))
    strict = {"accuracy": {"direction": "higher", "margin": 0.009}}
    verdict = new_execution(metrics=strict, examples=400).judge()
    (metric,) = verdict.candidates[0].metrics
    more = verdict.cost.candidates[0].more_examples
    assert more.examples == metric.examples_needed
    assert more.growth == pytest.approx(metric.examples_needed / 400)
    assert more.amount.seconds == pytest.approx(3 * sum(it.job.seconds for it in verdict.cost.arms))


@pytest.mark.parametrize("settings", [{}, {"worse_by": 0.05}, {"seeds": (1,)}])
def test_where_more_would_not_decide_it_has_no_cost(new_execution, settings) -> None:
    """It passed, it failed, or the spread between seeds is not known."""
    found = new_execution(**settings).judge().cost.candidates[0]
    assert (found.more_seeds, found.more_examples) == (None, None)


def test_where_something_else_is_in_doubt_nothing_is_promised(new_execution) -> None:
    small = {"column": "language", "value": "fr", "metric": "accuracy", "margin": 0.1}
    strict = {"accuracy": {"direction": "higher", "margin": 0.003}}
    execution = new_execution(metrics=strict, examples=400, slices=[small])
    languages = np.array(["de"] * 396 + ["fr"] * 4)
    execution.alter_all("baseline fast", examples__slices={"language": languages})
    found = execution.judge().cost.candidates[0]
    assert (found.more_seeds, found.more_examples) == (None, None)


# Memory.

GIGABYTE = 1_000_000_000


def measured(execution: Any, arm: str, *peaks: float | None, of: str | None = "device") -> Any:
    """The candidate, and what is said of its memory, after these peaks in gigabytes."""
    for seed, peak in zip((1, 2, 3), peaks, strict=True):
        found = (None, None) if peak is None else (int(peak * GIGABYTE), of)
        execution.alter(arm, seed, peak_memory_bytes=found[0], memory_of=found[1])
    (candidate,) = execution.judge().candidates
    return candidate, {it.code for it in candidate.reasons if it.code.subject == "memory"}


@pytest.fixture
def limited(new_execution):
    """An execution whose candidate may take a fifth more than the baseline."""
    execution = new_execution(max_memory_increase=0.2)
    measured(execution, "baseline", 1, 2, 1)
    return execution


@pytest.mark.parametrize(
    ("peaks", "outcome", "increase"),
    [
        ((1.0, 1.0, 3.0), Outcome.FAIL, 0.5),
        ((1.0, 2.4, 1.0), Outcome.PASS, 0.2),
        ((1.0, 1.5, 1.0), Outcome.PASS, -0.25),
        ((None, 2.4, None), Outcome.PASS, 0.2),
        ((None, None, 2.6), Outcome.FAIL, 0.3),
    ],
)
def test_the_largest_peaks_of_the_jobs_that_measured_one_decide(
    limited, peaks, outcome, increase
) -> None:
    candidate, codes = measured(limited, "fast", *peaks)
    assert candidate.outcome is outcome
    assert candidate.memory.increase == pytest.approx(increase)
    assert codes == ({Code.MEMORY_INCREASED} if outcome is Outcome.FAIL else set())


def test_memory_of_two_kinds_is_not_compared_and_without_a_limit_only_shown(
    limited, execution
) -> None:
    measured(limited, "fast", 1, 1, 1)
    limited.alter("fast", 2, memory_of="process")
    candidate = limited.judge().candidates[0]
    assert (candidate.outcome, candidate.memory.increase) == (Outcome.INCONCLUSIVE, None)
    measured(execution, "baseline", 1, 1, 1)
    candidate, codes = measured(execution, "fast", 5, 5, 5)
    assert (candidate.outcome, codes) == (Outcome.PASS, set())
    assert candidate.memory.increase == pytest.approx(4.0)


def test_memory_of_nobody_knows_what_is_not_measured(execution) -> None:
    """It may be the host's, beside a GPU's."""
    candidate, _ = measured(execution, "fast", 1, 1, 1, of=None)
    assert candidate.memory.candidate_bytes is None
    observed = observe(execution.experiment, execution.records)
    peaks = {item.arm: item.peak_memory_bytes for item in observed.replicates}
    assert peaks == {"baseline": 500_000_000, "fast": None}
