"""Speed: steady-state samples per second, break-even, and what the words say."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from compilegate.gate.judgements import CompileTime
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.speed.arm_speed import ArmSpeed, Runs, measure_arm
from compilegate.gate.speed.compile_time import CompileTimes
from compilegate.gate.speed.judgement import judge_speed
from compilegate.gate.speed.repayment import repayment
from compilegate.gate.speed.speedup import seeds_to_settle, speedup_interval
from compilegate.job.evidence import CheckpointRecord, Resumption


def arm_speed(
    rates: list[float], *, compile_seconds: float = 0.0, batch_size: int = 32, noise: float = 0.05
) -> ArmSpeed:
    generator = np.random.default_rng(5)
    return ArmSpeed(
        batch_size=batch_size,
        rates=tuple(rates),
        runs=Runs(
            steady_seconds=tuple(
                batch_size / rate * generator.lognormal(0.0, noise, 500) for rate in rates
            ),
            compilation=CompileTimes(CompileTime(compile_seconds, compile_seconds, 3), None),
            train_seconds=100.0,
            steps=1000,
        ),
    )


def with_runs(speed: ArmSpeed, **changed: object) -> ArmSpeed:
    return dataclasses.replace(speed, runs=dataclasses.replace(speed.runs, **changed))


BASELINE = arm_speed([100.0, 102.0, 98.0])


def judged(candidate: ArmSpeed, baseline: ArmSpeed = BASELINE, **asked: float):
    guards = {"accuracy": MetricGuard(direction="higher", margin=0.01)}
    settings = GateSettings(metrics=guards, min_speedup=1.2, **asked)
    judgement, reason = judge_speed(baseline, candidate, settings, 0.95)
    assert judgement is not None
    return judgement, reason


def test_the_interval_is_welch_s_over_the_logarithms_of_the_jobs_speeds():
    candidate = arm_speed([131.0, 128.0, 135.0])
    interval, one_run = speedup_interval(BASELINE, candidate, 0.95)
    welch = scipy.stats.ttest_ind(
        np.log(candidate.rates), np.log(BASELINE.rates), equal_var=False
    ).confidence_interval(0.90)
    assert not one_run
    assert interval.lower == pytest.approx(math.exp(welch.low))
    assert interval.upper == pytest.approx(math.exp(welch.high))
    assert interval.estimate == pytest.approx(candidate.rate / BASELINE.rate)


@pytest.mark.parametrize(
    ("rates", "outcome", "code", "advice"),
    [
        ([150.0, 151.0, 149.0], Outcome.PASS, Code.SPEED_FASTER, "Fast enough: 1.50 times as fast"),
        ([104.0, 105.0, 103.0], Outcome.FAIL, Code.SPEED_BELOW_MINIMUM, "Leave it off."),
        (
            [115.0, 116.0, 114.0],
            Outcome.FAIL,
            Code.SPEED_BELOW_MINIMUM,
            "accept a lower min_speedup",
        ),
        ([100.0, 130.0, 115.0], Outcome.INCONCLUSIVE, Code.SPEED_UNDECIDED, "Not settled: "),
        ([110.0, 150.0, 125.0], Outcome.INCONCLUSIVE, Code.SPEED_UNDECIDED, "would settle it"),
    ],
)
def test_the_whole_interval_decides_and_the_estimate_chooses_the_words(
    rates, outcome, code, advice
):
    judgement, reason = judged(arm_speed(rates))
    assert judgement.outcome is outcome
    assert reason.code is code
    assert advice in reason.sentence


def test_break_even_is_the_compile_time_over_the_time_that_a_step_saves():
    candidate = arm_speed([200.0] * 3, compile_seconds=30.0)
    judgement, _ = judged(candidate, arm_speed([100.0] * 3))
    # A step of 32 samples takes 0.32 s and 0.16 s: 30 s are saved after 187.5 steps.
    assert judgement.run.break_even_steps == 188
    assert judgement.run.break_even_minutes == pytest.approx(187.5 * 0.32 / 60)


def test_what_is_not_faster_never_breaks_even():
    judgement, _ = judged(arm_speed([90.0, 91.0, 89.0], compile_seconds=1.0))
    assert judgement.run.break_even_steps is None
    assert judgement.run.break_even_minutes is None


def test_what_compiles_for_nothing_has_broken_even_at_the_start():
    judgement, _ = judged(arm_speed([150.0, 151.0, 149.0]))
    assert judgement.run.break_even_steps == 0


def test_faster_steps_that_do_not_repay_compiling_within_a_run_are_not_called_faster():
    """The baseline's run takes 320 s, the candidate's 213 s and 120 s of compilation."""
    judgement, reason = judged(arm_speed([150.0, 151.0, 149.0], compile_seconds=120.0))
    assert judgement.speedup.lower > judgement.min_speedup
    assert (reason.code, reason.outcome) == (Code.SPEED_NOT_REPAID, Outcome.FAIL)
    assert judgement.required_speedup == pytest.approx(320 / (320 - 120), rel=0.01)
    assert (
        "at least 1.60 is required, to repay 120.0 s of cold compilation within 1,000 steps."
    ) in reason.sentence
    assert judgement.advice == "such a run is too short to be worth compiling"
    assert f"breaks even after {judgement.run.break_even_steps:,} steps" in reason.sentence


def test_compiling_for_longer_than_the_baseline_s_run_is_repaid_by_no_speed_up():
    judgement, reason = judged(arm_speed([1e4, 1.01e4, 0.99e4], compile_seconds=500.0))
    assert judgement.required_speedup is None
    assert reason.code is Code.SPEED_NOT_REPAID
    assert "no speed-up is enough to repay 500.0 s of cold compilation" in reason.sentence


@pytest.mark.parametrize(
    ("compile_seconds", "told"),
    [
        (
            90.0,
            "measure again, with more seeds or for longer",
        ),  # 1.39 repays it, and the interval reaches it
        (160.0, "such a run is too short to be worth compiling"),  # 2.00 does
        (500.0, "such a run is too short to be worth compiling"),
    ],
)
def test_a_longer_benchmark_is_advised_only_where_it_can_help(compile_seconds, told):
    judgement, reason = judged(arm_speed([100.0, 130.0, 115.0], compile_seconds=compile_seconds))
    assert 1.20 < judgement.speedup.upper < 1.9
    assert told == judgement.advice
    assert reason.outcome is judgement.outcome


def test_whether_compiling_is_repaid_may_be_undecided_and_names_the_seeds():
    judgement, reason = judged(arm_speed([150.0, 158.0, 142.0], compile_seconds=95.0))
    assert judgement.min_speedup < judgement.speedup.lower
    assert judgement.speedup.lower < judgement.required_speedup < judgement.speedup.upper
    assert (reason.code, reason.outcome) == (Code.SPEED_UNDECIDED, Outcome.INCONCLUSIVE)
    assert judgement.seeds_needed > 3


def test_a_longer_real_training_may_repay_what_the_judged_runs_do_not():
    candidate = arm_speed([150.0, 151.0, 149.0], compile_seconds=120.0)
    judgement, reason = judged(candidate, repaid_within_runs=2.0)
    assert reason.code is Code.SPEED_FASTER
    assert (judgement.required_speedup, judgement.run.repaid_within_steps) == (
        pytest.approx(640 / (640 - 120), rel=0.01),
        2000,
    )


def test_warm_compilation_is_what_has_to_be_repaid_once_a_cache_served_a_job():
    candidate = with_runs(
        arm_speed([150.0, 151.0, 149.0]),
        compilation=CompileTimes(
            cold=CompileTime(120.0, 120.2, jobs=1), warm=CompileTime(3.0, 3.2, jobs=2)
        ),
    )
    judgement, reason = judged(candidate)
    assert reason.code is Code.SPEED_FASTER
    assert (judgement.run.compile_state, judgement.run.candidate_compile_seconds) == ("warm", 3.0)


@pytest.mark.slow
@given(
    rate=st.floats(50.0, 500.0),
    compile_seconds=st.floats(0.0, 400.0),
    runs=st.floats(0.1, 5.0),
)
def test_at_the_speed_up_that_repays_it_both_runs_end_together(rate, compile_seconds, runs):
    candidate = arm_speed([rate, rate], compile_seconds=compile_seconds)
    repaid = repayment(BASELINE, candidate, runs=runs)
    whole = repaid.steps * 32 / BASELINE.rate
    if repaid.speedup is None:
        assert compile_seconds >= whole
    else:
        assert compile_seconds + whole / repaid.speedup == pytest.approx(whole, rel=1e-6)


def test_a_larger_batch_counts_by_samples_not_by_steps():
    candidate = arm_speed([150.0, 151.0, 149.0], batch_size=48)
    interval, _ = speedup_interval(BASELINE, candidate, 0.95)
    assert interval.estimate == pytest.approx(1.5, rel=0.01)


def test_one_run_an_arm_is_said_to_cover_that_run_only():
    candidate = arm_speed([150.0])
    judgement, reason = judged(candidate, arm_speed([100.0]))
    assert judgement.conditional_on_run
    assert "One job of each arm" in reason.sentence
    assert judgement.speedup.lower < 1.5 < judgement.speedup.upper
    assert judgement.speedup.upper - judgement.speedup.lower < 0.05


def test_the_bootstrap_sees_that_neighbouring_steps_are_alike():
    slow_and_fast = np.repeat(np.random.default_rng(6).lognormal(0.0, 0.2, 50), 10) * 0.3
    alike = with_runs(arm_speed([32 / slow_and_fast.mean()]), steady_seconds=(slow_and_fast,))
    shuffled = with_runs(
        alike, steady_seconds=(np.random.default_rng(7).permutation(slow_and_fast),)
    )
    quiet = arm_speed([150.0], noise=1e-6)
    widths = []
    for baseline in (alike, shuffled):
        interval, _ = speedup_interval(baseline, quiet, 0.95)
        widths.append(interval.upper - interval.lower)
    assert widths[0] > 1.5 * widths[1]


def test_the_same_evidence_gives_the_same_interval():
    once, again = (
        speedup_interval(arm_speed([100.0]), arm_speed([150.0]), 0.95)[0] for _ in range(2)
    )
    assert once == again


def test_speed_is_recomputed_from_the_steady_steps(execution):
    record = execution.record("fast", 1)
    measured = measure_arm(32, [record])
    steady = record.steps.seconds[record.evidence.speed.steady_from :]
    assert measured.rates == (pytest.approx(32 * len(steady) / steady.sum()),)


def test_the_warm_up_after_a_resumption_is_not_steady_and_its_cost_is_said(execution):
    record = execution.record("fast", 1)
    seconds = record.steps.seconds.copy()
    seconds[30:36] += 25.0  # the machine that took over had to compile again
    lost = Resumption(step=30, steady_from=36, lost_seconds=400.0)
    execution.records["fast", 1] = dataclasses.replace(
        record,
        steps=dataclasses.replace(record.steps, seconds=seconds),
        evidence=dataclasses.replace(
            record.evidence,
            checkpoints=CheckpointRecord(written=2, seconds=0.3, ignored=None, resumed=(lost,)),
        ),
    )
    batch_size = int(record.evidence.recipe["batch_size"])
    speed = measure_arm(batch_size, [execution.records["fast", 1]])
    first = record.evidence.speed.steady_from
    steady = np.concatenate([record.steps.seconds[first:30], record.steps.seconds[36:]])
    assert speed.rates == (pytest.approx(batch_size * len(steady) / steady.sum()),)
    _, reason = judged(with_runs(arm_speed([131.0, 128.0]), interruptions=1))
    assert "Interruptions" not in judged(arm_speed([131.0, 128.0]))[1].sentence
    assert reason.sentence.endswith(
        "Interruptions of the candidate: 1, which cost 0 s: part of its time to train, and of no "
        "steady step."
    )
    assert (speed.runs.interruptions, speed.runs.lost_seconds) == (1, 400.0)


def test_too_few_steady_steps_leave_the_speed_undecided(execution):
    for replicate in execution.records:
        steps = execution.record(*replicate).steps
        execution.change_steps(*replicate, loss=steps.loss[:15], seconds=steps.seconds[:15])
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.INCONCLUSIVE
    assert candidate.speed is None
    assert Code.SPEED_UNMEASURED in {reason.code for reason in candidate.reasons}


def test_an_undecided_speed_up_names_the_seeds_that_would_settle_it():
    judgement, reason = judged(arm_speed([120.0, 150.0, 135.0]))
    assert judgement.outcome is Outcome.INCONCLUSIVE
    assert judgement.seeds_needed > judgement.seeds == 3
    assert f"About {judgement.seeds_needed} seeds instead of 3 would settle it." in reason.sentence


@pytest.mark.slow
@given(
    rates=st.lists(st.floats(110.0, 160.0), min_size=2, max_size=6),
    others=st.lists(st.floats(90.0, 110.0), min_size=2, max_size=6),
)
def test_that_many_seeds_of_the_same_spread_do_settle_it(rates, others):
    """Held against Welch's interval of so many jobs that lie as these do."""
    candidate, baseline = arm_speed(rates), arm_speed(others)
    needed = seeds_to_settle(baseline, candidate, 1.2, 0.95)
    assume(needed is not None and min(np.ptp(rates), np.ptp(others)) > 1e-3)
    many = [_spread_like(np.log(arm.rates), needed) for arm in (candidate, baseline)]
    interval = scipy.stats.ttest_ind(*many, equal_var=False).confidence_interval(0.90)
    assert not interval.low < math.log(1.2) < interval.high


def _spread_like(values: np.ndarray, count: int) -> np.ndarray:
    """So many values with the same mean and standard deviation."""
    line = np.linspace(-1.0, 1.0, count)
    return values.mean() + values.std(ddof=1) * line / line.std(ddof=1)


def test_what_more_seeds_for_the_speed_cost_is_part_of_the_verdict(new_execution):
    execution = new_execution(seeds=(1, 2, 3))
    for seed, factor in ((1, 0.9), (2, 1.0), (3, 1.2)):
        record = execution.record("fast", seed)
        execution.change_steps("fast", seed, seconds=record.steps.seconds * factor)
    verdict = execution.judge()
    (candidate,) = verdict.candidates
    assert {item.code for item in candidate.reasons if item.outcome is Outcome.INCONCLUSIVE} == {
        Code.SPEED_UNDECIDED
    }
    cost = verdict.cost.candidates[0]
    assert cost.more_seeds.seeds == candidate.speed.seeds_needed - 3
    assert cost.more_examples is None


def test_bounds_of_jobs_that_have_nothing_in_common_are_numbers_all_the_same():
    interval, _ = speedup_interval(BASELINE, arm_speed([100.0, 1e9]), 0.9999)
    assert interval.lower == 0.0
    assert math.isfinite(interval.upper)
