"""Cost: dollars only where they are known, and when the gate is repaid; memory: of one kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.cost import retrainings_to_repay
from compilegate.gate.findings import Code, Outcome
from compilegate.gate.verdict import Amount, ArmCost, Verdict
from compilegate.job.evidence import (
    CheckpointRecord,
    CompileCacheRecord,
    PairedSpeedRecord,
    ParityRecord,
)
from tests.gate.conftest import build_execution

G5, P5 = "ml.g5.xlarge", "ml.p5.48xlarge"


def take(execution: Any, arm: str, *, train: float, total: float) -> None:
    """Let every job of an arm have taken these seconds, without a parity probe beside them."""
    for seed in execution.experiment.seeds:
        waited = train - float(execution.seconds(arm, seed).sum())
        checkpoints = CheckpointRecord(written=1, seconds=waited, ignored=None)
        times = {"speed__train_seconds": train, "speed__total_seconds": total}
        execution.alter(arm, seed, checkpoints=checkpoints, **times)
        execution.without_parity(arm, seed)


def accuracy(margin: float) -> dict[str, Any]:
    return {"accuracy": {"direction": "higher", "margin": margin}}


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
    assert (fast.training.usd, fast.price_note) == (pytest.approx(0.055), "in 2026-08")
    assert fast.samples_per_dollar == pytest.approx(fast.samples_per_second * 1000.0)
    # Every job but one of the baseline's.
    assert figures.gate == Amount(pytest.approx(2 * 120.0 + 3 * 75.0), pytest.approx(0.465))
    assert (figures.jobs_counted, figures.jobs_not_counted) == (6, 0)
    (candidate,) = figures.candidates
    assert candidate.saved == Amount(pytest.approx(45.0), pytest.approx(0.045))
    assert (candidate.retrainings_to_repay, candidate.repaid_in) == (11, "dollars")
    run = verdict.candidates[0].speed.run
    assert candidate.break_even_runs == pytest.approx(run.break_even_steps / 60)
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


def test_a_dearer_instance_saves_time_and_never_repays_the_gate(priced) -> None:
    priced.alter_all("fast", environment__instance_type=P5)
    priced.declare("fast", instance_type=P5, usd_per_hour=7.2)
    candidate = priced.judge().cost.candidates[0]
    assert candidate.saved == Amount(pytest.approx(45.0), pytest.approx(-0.01))
    assert candidate.retrainings_to_repay is None


@pytest.mark.parametrize(
    ("ran_on", "declared", "note"),
    [
        ("ml.g5.2xlarge", {}, "Jobs ran on ml.g5.2xlarge"),
        (None, {}, "do not say"),  # as a local run, which runs on no rented instance
        (G5, {"usd_per_hour": None, "price_note": "the catalog has none"}, "the catalog has none"),
    ],
)
def test_a_price_is_not_put_on_the_seconds_of_another_machine(
    priced, ran_on, declared, note
) -> None:
    priced.alter_all("fast", environment__instance_type=ran_on)
    priced.declare("fast", **declared)
    verdict = priced.judge()
    fast = cost(verdict, "fast")
    assert (fast.job, fast.samples_per_dollar) == (Amount(pytest.approx(75.0), None), None)
    assert note in fast.price_note
    # The sum is unknown, and seconds are what is left to count by.
    assert verdict.cost.gate.usd is None
    candidate = verdict.cost.candidates[0]
    assert (candidate.retrainings_to_repay, candidate.repaid_in) == (11, "seconds")


def test_probes_are_part_of_what_a_job_costs_and_jobs_without_evidence_are_not(priced) -> None:
    parity = ParityRecord("fp32", 0, 9.0, obstacle="not comparable")
    pairs = PairedSpeedRecord(6.0, "eager", 32, 32, 0, obstacle="not comparable")
    priced.alter_all("fast", parity=parity, paired_speed=pairs)
    fast = cost(priced.judge(), "fast")
    assert (fast.job.seconds, fast.training.seconds) == pytest.approx((90.0, 55.0))
    priced.alter("fast", 1, parity__seconds=1e300)  # is not plausible
    del priced.records["fast", 2]
    figures = priced.judge().cost
    assert (figures.jobs_counted, figures.jobs_not_counted) == (4, 2)
    assert figures.gate.seconds == pytest.approx(2 * 120.0 + 90.0)
    priced.records.clear()
    assert priced.judge().cost is None


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


def test_what_more_seeds_and_rows_would_cost_is_named_where_they_would_decide() -> None:
    verdict = build_execution(worse_by=0.006).judge()
    (candidate,) = verdict.candidates
    more = verdict.cost.candidates[0].more_seeds
    job = sum(arm.job.seconds for arm in verdict.cost.arms)
    assert more.seeds == max(item.seeds_needed or 0 for item in candidate.metrics) - 3
    assert more.amount.seconds == pytest.approx(more.seeds * job)
    verdict = build_execution(metrics=accuracy(0.009), examples=400).judge()
    needed = verdict.candidates[0].metrics[0].examples_needed
    more = verdict.cost.candidates[0].more_examples
    job = sum(arm.job.seconds for arm in verdict.cost.arms)
    assert (more.examples, more.growth) == (needed, pytest.approx(needed / 400))
    assert more.amount.seconds == pytest.approx(3 * job)


SMALL = {"column": "language", "value": "fr", "metric": "accuracy", "margin": 0.1}


@pytest.mark.parametrize(
    "settings",
    [
        {},  # it passed
        {"worse_by": 0.05},  # it failed
        {"seeds": (1,)},  # the spread between seeds is not known
        # Something else is in doubt: the slice has no rows.
        {"metrics": accuracy(0.003), "examples": 400, "slices": [SMALL]},
    ],
)
def test_where_more_would_not_decide_it_has_no_cost(settings) -> None:
    found = build_execution(**settings).judge().cost.candidates[0]
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


@pytest.mark.parametrize(
    ("peaks", "limit", "increase", "code"),
    [
        ((1.0, 1.0, 3.0), 0.2, 0.5, Code.MEMORY_INCREASED),
        ((1.0, 1.0, 3.0), None, 0.5, None),
        ((1.0, 2.4, 1.0), 0.2, 0.2, None),
        ((1.0, 1.5, 1.0), 0.2, -0.25, None),
        ((None, None, 2.6), 0.2, 0.3, Code.MEMORY_INCREASED),
        ((None, None, None), 0.2, None, Code.MEMORY_NOT_COMPARED),
    ],
)
def test_the_largest_peaks_of_the_jobs_that_measured_one_decide(
    peaks, limit, increase, code
) -> None:
    execution = build_execution(max_memory_increase=limit)
    measured(execution, "baseline", 1, 2, 1)
    candidate, codes = measured(execution, "fast", *peaks)
    assert candidate.memory.increase == (None if increase is None else pytest.approx(increase))
    assert codes == ({code} if code else set())
    assert (candidate.outcome is Outcome.PASS) == (code is None)
