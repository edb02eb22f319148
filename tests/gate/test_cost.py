"""Cost: dollars only where they are known, what the gate took, and when that is repaid."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from compilegate.gate.cost import retrainings_to_repay
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import ArmDeclaration
from compilegate.gate.verdict import Amount, ArmCost, Verdict
from compilegate.job.evidence import (
    CheckpointRecord,
    CompileCacheRecord,
    PairedSpeedRecord,
    ParityRecord,
)

G5 = "ml.g5.xlarge"


def declare(execution, arm: str, **fields: object) -> None:
    """Change what the experiment declares about an arm."""
    declared = execution.experiment.arms[arm].model_copy(update=fields)
    arms = {**execution.experiment.arms, arm: declared}
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})


def run_on(execution, arm: str, instance_type: str) -> None:
    """Let the evidence of all replicates say where they ran."""
    for seed in execution.experiment.seeds:
        environment = execution.record(arm, seed).evidence.environment
        execution.change_evidence(
            arm, seed, environment={**environment, "instance_type": instance_type}
        )


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
        declare(execution, arm, instance_type=G5, usd_per_hour=3.6, price_note="in 2026-08")
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
    declare(priced, "fast", instance_type="ml.p5.48xlarge", usd_per_hour=7.2)
    candidate = priced.judge().cost.candidates[0]
    assert candidate.saved.seconds == pytest.approx(45.0)
    assert candidate.saved.usd == pytest.approx(-0.01)
    assert candidate.retrainings_to_repay is None


def test_a_price_is_not_put_on_the_seconds_of_another_machine(execution):
    """A local run declares an instance and does not run on it."""
    for arm in ("baseline", "fast"):
        take(execution, arm, train=60.0, total=80.0)
        declare(execution, arm, instance_type=G5, usd_per_hour=3.6)
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
    declare(priced, "fast", usd_per_hour=None, price_note="the catalog has no price of it")
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


def test_a_probe_that_took_longer_than_any_job_is_implausible_and_not_added_up(priced):
    probe = ParityRecord(precision="fp32", steps=0, seconds=1e300, obstacle="not comparable")
    priced.change_evidence("fast", 1, parity=probe)
    verdict = priced.judge()
    assert Code.EVIDENCE_IMPLAUSIBLE in {reason.code for reason in verdict.candidates[0].reasons}
    assert verdict.cost.jobs_not_counted == 1
    assert math.isfinite(verdict.cost.gate.seconds)
