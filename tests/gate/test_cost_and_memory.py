"""Cost: dollars only where they are known, and when the gate is repaid; memory: of one kind."""

from __future__ import annotations

import dataclasses
import math

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

G5 = "ml.g5.xlarge"


def run_on(execution, arm: str, instance_type: str) -> None:
    """Let the evidence of all replicates say where they ran."""
    for seed in execution.experiment.seeds:
        execution.change_environment(arm, seed, instance_type=instance_type)


def take(execution, arm: str, *, train: float, total: float) -> None:
    """Let every job of an arm have taken these seconds."""
    for seed in execution.experiment.seeds:
        record = execution.record(arm, seed)
        changed = dataclasses.replace(
            record.evidence.speed, train_seconds=train, total_seconds=total
        )
        waited = train - float(record.steps.seconds.sum())
        checkpoints = CheckpointRecord(written=1, seconds=waited, ignored=None)
        execution.change_evidence(arm, seed, speed=changed, checkpoints=checkpoints)
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
        run_on(execution, arm, G5)
        execution.declare(arm, instance_type=G5, usd_per_hour=3.6, price_note="in 2026-08")
    return execution


def test_dollars_are_the_seconds_that_were_measured_times_the_price(priced):
    verdict = priced.judge()
    assert cost(verdict, "baseline").job.usd == pytest.approx(0.12)
    assert cost(verdict, "fast").training.usd == pytest.approx(0.055)
    assert cost(verdict, "fast").price_note == "in 2026-08"
    fast = cost(verdict, "fast")
    assert fast.samples_per_dollar == pytest.approx(fast.samples_per_second * 1000.0)


def test_the_gate_cost_every_job_but_one_of_the_baseline(priced):
    figures = priced.judge().cost
    assert figures.gate.seconds == pytest.approx(2 * 120.0 + 3 * 75.0)
    assert figures.gate.usd == pytest.approx(0.465)
    assert (figures.jobs_counted, figures.jobs_not_counted) == (6, 0)


def test_a_retraining_saves_the_difference_of_whole_trainings_and_some_repay_the_gate(priced):
    candidate = priced.judge().cost.candidates[0]
    assert candidate.saved.seconds == pytest.approx(45.0)
    assert candidate.saved.usd == pytest.approx(0.045)
    assert (candidate.retrainings_to_repay, candidate.repaid_in) == (11, "dollars")


def test_a_retraining_pays_the_warm_compilation_also_where_some_jobs_had_to_fill_the_cache(priced):
    for seed, (state, compile_seconds) in enumerate(
        [("cold", 30.0), *[("warm", 6.0)] * 2], start=1
    ):
        evidence = priced.record("fast", seed).evidence
        cache = CompileCacheRecord(state, "why", "0" * 64, 0, 0, 0, 0)
        priced.change_evidence(
            "fast",
            seed,
            compiler=dataclasses.replace(evidence.compiler, compile_seconds=compile_seconds),
            speed=dataclasses.replace(evidence.speed, train_seconds=40.0 + compile_seconds),
            compile_cache=cache,
        )
    verdict = priced.judge()
    assert cost(verdict, "fast").training.seconds == pytest.approx(40.0 + (30.0 + 2 * 6.0) / 3)
    assert cost(verdict, "fast").retraining.seconds == pytest.approx(46.0)
    assert verdict.cost.candidates[0].saved.seconds == pytest.approx(100.0 - 46.0)


def test_what_saves_nothing_never_repays_the_gate(priced):
    take(priced, "fast", train=130.0, total=150.0)
    candidate = priced.judge().cost.candidates[0]
    assert candidate.saved.seconds == pytest.approx(-30.0)
    assert candidate.retrainings_to_repay is None


def test_a_faster_arm_on_a_dearer_instance_is_judged_by_dollars(priced):
    run_on(priced, "fast", "ml.p5.48xlarge")
    priced.declare("fast", instance_type="ml.p5.48xlarge", usd_per_hour=7.2)
    candidate = priced.judge().cost.candidates[0]
    assert candidate.saved.seconds == pytest.approx(45.0)
    assert candidate.saved.usd == pytest.approx(-0.01)
    assert candidate.retrainings_to_repay is None


def test_a_price_is_not_put_on_the_seconds_of_another_machine(execution):
    """A local run declares an instance and does not run on it."""
    for arm in ("baseline", "fast"):
        take(execution, arm, train=60.0, total=80.0)
        execution.declare(arm, instance_type=G5, usd_per_hour=3.6)
    figures = execution.judge().cost
    assert figures.gate == Amount(seconds=pytest.approx(5 * 80.0), usd=None)
    for arm in figures.arms:
        assert (arm.job.usd, arm.samples_per_dollar, arm.usd_per_hour) == (None, None, None)
        assert arm.price_note == "The jobs do not say that they ran on a rented instance."


def test_jobs_on_another_instance_than_the_declared_one_have_no_price(priced):
    run_on(priced, "baseline", "ml.g5.2xlarge")
    baseline = cost(priced.judge(), "baseline")
    assert baseline.job.usd is None
    assert baseline.price_note == "Jobs ran on ml.g5.2xlarge, and the price is of ml.g5.xlarge."


def test_an_unknown_price_says_why_and_is_not_zero(priced):
    priced.declare("fast", usd_per_hour=None, price_note="the catalog has no price of it")
    verdict = priced.judge()
    assert cost(verdict, "fast").job == Amount(pytest.approx(75.0), None)
    assert cost(verdict, "fast").price_note == "No price: the catalog has no price of it."
    # One price is missing, so that the sum is unknown and seconds are what is left to count by.
    assert verdict.cost.gate.usd is None
    candidate = verdict.cost.candidates[0]
    assert (candidate.retrainings_to_repay, candidate.repaid_in) == (11, "seconds")


@pytest.mark.parametrize("price", [0, -1.0, math.nan, math.inf, 1e9])
def test_a_declared_price_is_a_price(price):
    with pytest.raises(ValidationError, match="usd_per_hour"):
        ArmDeclaration(
            compiler="eager",
            batch_size=8,
            learning_rate=0.1,
            precision="fp32",
            instance_type=G5,
            usd_per_hour=price,
        )


def test_a_price_without_an_instance_is_refused():
    with pytest.raises(ValidationError, match=r"usd_per_hour is 2 without instance_type"):
        ArmDeclaration(
            compiler="eager", batch_size=8, learning_rate=0.1, precision="fp32", usd_per_hour=2.0
        )


def test_what_more_seeds_would_cost_is_told_where_they_would_settle_it(new_execution):
    execution = new_execution(worse_by=0.006)
    take(execution, "baseline", train=100.0, total=120.0)
    take(execution, "fast", train=60.0, total=80.0)
    verdict = execution.judge()
    candidate = verdict.candidates[0]
    assert candidate.outcome is Outcome.INCONCLUSIVE
    needed = max(item.seeds_needed for item in candidate.metrics if item.seeds_needed is not None)
    more = verdict.cost.candidates[0].more_seeds
    assert more.seeds == needed - 3
    assert more.amount.seconds == pytest.approx((needed - 3) * 200.0)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"worse_by": 0.05}, {"seeds": (1,)}])
def test_where_more_seeds_would_not_settle_it_they_have_no_cost(new_execution, settings):
    """It passed, it failed, or the spread between seeds is not known."""
    assert new_execution(**settings).judge().cost.candidates[0].more_seeds is None


def test_break_even_in_runs_is_its_steps_over_those_of_a_run(execution):
    verdict = execution.judge()
    speed = verdict.candidates[0].speed
    runs = verdict.cost.candidates[0].break_even_runs
    assert runs == pytest.approx(speed.run.break_even_steps / 60)


def test_an_arm_that_is_not_faster_breaks_even_in_no_number_of_runs(new_execution):
    assert new_execution(speedup=0.8).judge().cost.candidates[0].break_even_runs is None


def test_the_parity_probe_is_part_of_what_a_job_costs(priced):
    probe = {"precision": "fp32", "steps": 0, "seconds": 9.0, "obstacle": "not comparable"}
    for seed in priced.experiment.seeds:
        priced.change_evidence("fast", seed, parity=ParityRecord(**probe))
    fast = cost(priced.judge(), "fast")
    assert fast.job.seconds == pytest.approx(84.0)
    assert fast.training.seconds == pytest.approx(55.0)


def test_the_speed_probe_is_part_of_what_a_job_costs(priced):
    probe = {"baseline_compiler": "eager", "steps_per_block": 0, "obstacle": "not comparable"}
    sizes = {"baseline_batch_size": 32, "candidate_batch_size": 32}
    record = PairedSpeedRecord(seconds=6.0, **probe, **sizes)
    for seed in priced.experiment.seeds:
        priced.change_evidence("fast", seed, paired_speed=record)
    assert cost(priced.judge(), "fast").job.seconds == pytest.approx(81.0)


def test_jobs_without_sound_evidence_are_left_out_and_counted(priced):
    priced.records.pop(("fast", 2))
    figures = priced.judge().cost
    assert (figures.jobs_counted, figures.jobs_not_counted) == (5, 1)
    assert figures.gate.seconds == pytest.approx(2 * 120.0 + 2 * 75.0)
    assert [candidate.arm for candidate in figures.candidates] == ["fast"]


def test_without_any_sound_evidence_there_is_no_cost(execution):
    execution.records.clear()
    assert execution.judge().cost is None


AMOUNTS = st.floats(0.01, 1e7)


@given(gate=AMOUNTS, saved=AMOUNTS)
def test_the_gate_is_repaid_by_the_last_retraining_and_not_by_the_one_before(gate, saved):
    count, _ = retrainings_to_repay(Amount(gate, None), Amount(saved, None))
    if count is None:
        assert gate / saved > 999_999
    else:
        assert count * saved >= gate * (1 - 1e-9)
        assert (count - 1) * saved < gate * (1 + 1e-9)


@given(gate=AMOUNTS, saved=st.floats(-1e7, 0.0))
def test_nothing_is_repaid_where_nothing_is_saved(gate, saved):
    count, _ = retrainings_to_repay(Amount(gate, None), Amount(saved, None))
    assert count is None


@pytest.mark.parametrize(("gate", "count"), [(1e6, 1_000_000), (1.1e6, None)])
def test_what_takes_more_than_a_million_retrainings_is_never_repaid(gate, count):
    assert retrainings_to_repay(Amount(gate, None), Amount(1.0, None))[0] == count


def test_a_verdict_with_its_cost_is_read_back_as_it_was(priced):
    verdict = priced.judge()
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_a_probe_that_took_longer_than_any_job_is_not_added_up(priced):
    probe = ParityRecord(precision="fp32", steps=0, seconds=1e300, obstacle="not comparable")
    priced.change_evidence("fast", 1, parity=probe)
    verdict = priced.judge()
    assert Code.EVIDENCE_UNREADABLE in {reason.code for reason in verdict.candidates[0].reasons}
    assert verdict.cost.jobs_not_counted == 1
    assert math.isfinite(verdict.cost.gate.seconds)


def test_the_verdict_names_the_rows_and_what_running_on_them_costs(new_execution):
    strict = {"accuracy": {"direction": "higher", "margin": 0.009}}
    verdict = new_execution(metrics=strict, examples=400).judge()
    (candidate,) = verdict.candidates
    (metric,) = candidate.metrics
    assert candidate.outcome is Outcome.INCONCLUSIVE
    more = verdict.cost.candidates[0].more_examples
    assert more.examples == metric.examples_needed
    assert more.growth == pytest.approx(metric.examples_needed / 400)
    seconds = sum(3 * arm.job.seconds for arm in verdict.cost.arms)
    assert more.amount.seconds == pytest.approx(seconds)


def test_where_something_else_is_in_doubt_neither_seeds_nor_rows_are_promised(new_execution):
    small = {"column": "language", "value": "fr", "metric": "accuracy", "margin": 0.1}
    strict = {"accuracy": {"direction": "higher", "margin": 0.003}}
    execution = new_execution(metrics=strict, examples=400, slices=[small])
    for arm, seed in execution.records:
        languages = np.array(["de"] * 396 + ["fr"] * 4)
        execution.change_examples(arm, seed, slices={"language": languages})
    cost = execution.judge().cost.candidates[0]
    assert (cost.more_seeds, cost.more_examples) == (None, None)


# Memory.

GIGABYTE = 1_000_000_000


def measured(execution, arm, peaks, memory_of="device"):
    for seed, peak in zip((1, 2, 3), peaks, strict=True):
        memory = None if peak is None else memory_of
        execution.change_evidence(arm, seed, peak_memory_bytes=peak, memory_of=memory)


def about_memory(execution):
    (candidate,) = execution.judge().candidates
    return candidate, {it.code for it in candidate.reasons if it.code.subject == "memory"}


@pytest.fixture
def limited(new_execution):
    """An execution whose candidate may take a fifth more than the baseline."""
    execution = new_execution(max_memory_increase=0.2)
    measured(execution, "baseline", [GIGABYTE, 2 * GIGABYTE, GIGABYTE])
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
def test_the_largest_peaks_of_the_jobs_that_measured_one_decide(limited, peaks, outcome, increase):
    measured(limited, "fast", [None if it is None else int(it * GIGABYTE) for it in peaks])
    candidate, codes = about_memory(limited)
    assert candidate.outcome is outcome
    assert candidate.memory.increase == pytest.approx(increase)
    assert codes == ({Code.MEMORY_INCREASED} if outcome is Outcome.FAIL else set())


def test_without_a_limit_memory_is_shown_and_decides_nothing(execution):
    measured(execution, "baseline", [GIGABYTE] * 3)
    measured(execution, "fast", [5 * GIGABYTE] * 3)
    candidate, codes = about_memory(execution)
    assert (candidate.outcome, codes) == (Outcome.PASS, set())
    assert candidate.memory.increase == pytest.approx(4.0)


def test_jobs_of_one_arm_that_measured_two_kinds_are_not_compared(limited):
    measured(limited, "fast", [GIGABYTE] * 3)
    limited.change_evidence("fast", 2, memory_of="process")
    candidate, codes = about_memory(limited)
    assert (candidate.outcome, codes) == (Outcome.INCONCLUSIVE, {Code.MEMORY_NOT_COMPARED})
    assert candidate.memory.obstacle


def test_memory_of_nobody_knows_what_is_not_measured(execution):
    """It may be the host's, beside a GPU's."""
    for seed in (1, 2, 3):
        execution.change_evidence("fast", seed, peak_memory_bytes=GIGABYTE, memory_of=None)
    candidate, _ = about_memory(execution)
    assert candidate.memory.candidate_bytes is None
    observed = observe(execution.experiment, execution.records)
    peaks = {item.arm: item.peak_memory_bytes for item in observed.replicates}
    assert peaks == {"baseline": 500_000_000, "fast": None}


def test_an_arm_that_is_refused_does_not_hide_its_memory(limited):
    measured(limited, "fast", [9 * GIGABYTE] * 3)
    limited.change_digests("fast", 1, model=None)
    assert Code.MEMORY_INCREASED in about_memory(limited)[1]
