"""Speed: Welch and the bootstrap, alternating blocks, what has to be repaid, busy machines."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from compilegate.gate.findings import Code, Outcome, Reason
from compilegate.gate.observations import observe
from compilegate.gate.settings import GateSettings
from compilegate.gate.speed import (
    ArmSpeed,
    CompileTimes,
    PairedJob,
    Pairs,
    Runs,
    busy_machine,
    compile_times,
    jobs_to_settle,
    judge_pairs,
    judge_speed,
    paired_job,
    repaying_speedup,
    seeds_to_settle,
    slowdown_sentence,
    speedup_interval,
)
from compilegate.gate.verdict import CompileState, CompileTime, SpeedJudgement, SpeedSource
from compilegate.job.evidence import (
    CompileCacheRecord,
    EvidenceRecord,
    PaddedPositions,
    PaddingRecord,
    PairedBlocks,
    Slowdown,
)
from compilegate.job.evidence.record import RULES, SLOWDOWN_KINDS
from tests.gate.conftest import build_execution

SEEDS = (1, 2, 3)
QUICK, SLOW = (150.0, 151.0, 149.0), (104.0, 105.0, 103.0)


def arm_speed(
    *rates: float, compile_seconds: float = 0.0, batch_size: int = 32, noise: float = 0.05
) -> ArmSpeed:
    generator = np.random.default_rng(5)
    steps = tuple(batch_size / it * generator.lognormal(0.0, noise, 500) for it in rates)
    compiling = CompileTimes(CompileTime(compile_seconds, compile_seconds, 3), None)
    return ArmSpeed(batch_size, tuple(rates), Runs(steps, compiling, 100.0, 1000))


def with_runs(speed: ArmSpeed, **changed: object) -> ArmSpeed:
    return dataclasses.replace(speed, runs=dataclasses.replace(speed.runs, **changed))


BASELINE = arm_speed(100.0, 102.0, 98.0)


def judged(
    candidate: ArmSpeed, baseline: ArmSpeed = BASELINE, busy: str | None = None, **rules: float
) -> tuple[SpeedJudgement, Reason]:
    metrics = {"accuracy": {"direction": "higher", "margin": 0.01}}
    settings = GateSettings.model_validate({"metrics": metrics, "min_speedup": 1.2, **rules})
    judgement, (reason, *_) = judge_speed(
        baseline, candidate, settings, 0.95, Pairs(), busy_machine=busy
    )
    assert judgement is not None
    assert reason.outcome is judgement.outcome
    return judgement, reason


# By the jobs' own step times.


@pytest.mark.parametrize("batch_size", [32, 48])
def test_the_interval_is_welch_s_over_the_logarithms_of_the_jobs_samples(batch_size) -> None:
    candidate = arm_speed(131.0, 128.0, 135.0, batch_size=batch_size)
    interval, one_run = speedup_interval(BASELINE, candidate, 0.95)
    logs = np.log(candidate.rates), np.log(BASELINE.rates)
    welch = scipy.stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.90)
    assert not one_run
    assert (interval.lower, interval.upper) == pytest.approx(tuple(np.exp(welch)))
    assert interval.estimate == pytest.approx(candidate.rate / BASELINE.rate)


@pytest.mark.parametrize(
    ("rates", "compile_seconds", "outcome", "code", "binding"),
    [
        (QUICK, 20.0, Outcome.PASS, Code.SPEED_FASTER, "min_speedup"),
        (QUICK, 120.0, Outcome.FAIL, Code.SPEED_NOT_REPAID, "repayment"),
        ((1e4, 1.01e4), 500.0, Outcome.FAIL, Code.SPEED_NOT_REPAID, "repayment"),
        ((150, 158, 142), 95.0, Outcome.INCONCLUSIVE, Code.SPEED_UNDECIDED, "repayment"),
        ((100, 130, 115), 0.0, Outcome.INCONCLUSIVE, Code.SPEED_UNDECIDED, "min_speedup"),
        (SLOW, 0.0, Outcome.FAIL, Code.SPEED_BELOW_MINIMUM, "min_speedup"),
        (SLOW, 120.0, Outcome.FAIL, Code.SPEED_BELOW_MINIMUM, "repayment"),
    ],
)
def test_the_larger_limit_binds_and_the_bound_decides(
    rates, compile_seconds, outcome, code, binding
) -> None:
    judgement, reason = judged(arm_speed(*rates, compile_seconds=compile_seconds))
    assert (judgement.outcome, reason.code) == (outcome, code)
    assert judgement.binding == reason.numbers["binding"] == binding


def test_the_value_that_would_have_passed_is_that_of_the_limit_that_binds() -> None:
    """Lowering `min_speedup` changes nothing where compilation is not repaid; a longer run may."""
    candidate = arm_speed(*QUICK, compile_seconds=120.0)
    repaid, reason = judged(candidate)
    assert repaid.required_speedup == pytest.approx(320 / (320 - 120), rel=0.01)
    assert "min_speedup" not in reason.sentence + repaid.advice
    longer, reason = judged(candidate, repaid_within_runs=2.0)
    assert (reason.code, longer.run.repaid_within_steps) == (Code.SPEED_FASTER, 2000)
    assert longer.required_speedup == pytest.approx(640 / (640 - 120), rel=0.01)
    hardly = arm_speed(115.0, 116.0, 114.0)
    passing = float(judged(hardly)[1].sentence.split("min_speedup = ")[1].split()[0])
    assert judged(hardly, min_speedup=passing)[0].outcome is Outcome.PASS


@pytest.mark.slow
@given(
    rate=st.floats(50.0, 500.0),
    compile_seconds=st.floats(0.0, 400.0),
    between=st.floats(0.0, 200.0),
    usual=st.floats(0.0, 100.0),
    runs=st.floats(0.1, 5.0),
)
def test_at_the_speed_up_that_repays_it_both_runs_end_together(
    rate, compile_seconds, between, usual, runs
) -> None:
    """What a candidate spends between its steps counts beyond what the baseline does, and beyond
    what a loaded machine explains."""
    candidate = arm_speed(rate, rate, compile_seconds=compile_seconds)
    candidate = with_runs(candidate, between_seconds=between)
    baseline = with_runs(BASELINE, between_seconds=usual)
    required = repaying_speedup(baseline, candidate, runs=runs)
    whole = math.ceil(runs * 1000) * 32 / BASELINE.rate
    explained = max(0.05 * 1000 * 32 / BASELINE.rate, 0.5)
    lost = compile_seconds + runs * max(between - usual - explained, 0.0)
    if math.isinf(required):
        assert lost >= whole * (1 - 1e-9)
    else:
        assert lost + whole / required == pytest.approx(whole, rel=1e-6)


def test_break_even_is_the_compile_time_over_the_time_that_a_step_saves() -> None:
    candidate = arm_speed(200.0, 200.0, 200.0, compile_seconds=30.0)
    run = judged(candidate, arm_speed(100.0, 100.0, 100.0))[0].run
    # A step of 32 samples takes 0.32 s and 0.16 s: 30 s are saved after 187.5 steps.
    assert run.break_even_steps == 188
    assert run.break_even_minutes == pytest.approx(187.5 * 0.32 / 60)
    never = judged(arm_speed(90.0, 91.0, compile_seconds=1.0))[0].run
    at_once = judged(arm_speed(150.0, 151.0))[0].run
    assert (never.break_even_steps, at_once.break_even_steps) == (None, 0)


@pytest.mark.parametrize("left", [(100.0, 130.0), (130.0,)])
def test_with_one_job_left_the_estimate_lies_within_its_interval(left) -> None:
    for jobs in ((left, (98.0,)), ((98.0,), left)):
        interval, one_run = speedup_interval(*(arm_speed(*it) for it in jobs), 0.95)
        assert one_run
        assert interval.lower <= interval.estimate <= interval.upper < 1.1 * interval.lower


def test_the_bootstrap_sees_that_neighbouring_steps_are_alike() -> None:
    slow_and_fast = np.repeat(np.random.default_rng(6).lognormal(0.0, 0.2, 50), 10) * 0.3
    alike = with_runs(arm_speed(32 / slow_and_fast.mean()), steady_seconds=(slow_and_fast,))
    mixed = np.random.default_rng(7).permutation(slow_and_fast)
    baselines = (alike, alike, with_runs(alike, steady_seconds=(mixed,)))
    first, again, other = (
        speedup_interval(it, arm_speed(150.0, noise=1e-6), 0.95)[0] for it in baselines
    )
    assert first == again  # the same evidence gives the same interval
    assert first.upper - first.lower > 1.5 * (other.upper - other.lower)


def test_printed_speeds_may_be_off_by_half_of_their_last_digit_and_bounds_are_finite() -> None:
    before, after = (ArmSpeed(32, rates, None) for rates in ((10.0, 10.0), (15.0, 15.0)))
    interval, _ = speedup_interval(before, after, 0.95)
    assert interval.lower == pytest.approx(1.5 * math.exp(-0.05 - 0.5 / 15.0))
    exact = (ArmSpeed(32, rates, None) for rates in ((10.01, 10.0), (15.0, 15.01)))
    narrow, _ = speedup_interval(*exact, 0.95)
    assert narrow.upper - narrow.lower < 0.2 * (interval.upper - interval.lower)
    # Bounds of jobs that have nothing in common are numbers all the same.
    wide, _ = speedup_interval(BASELINE, arm_speed(100.0, 1e9), 0.9999)
    assert (wide.lower, math.isfinite(wide.upper)) == (0.0, True)


@pytest.mark.slow
@given(
    rates=st.lists(st.floats(110.0, 160.0), min_size=2, max_size=6),
    others=st.lists(st.floats(90.0, 110.0), min_size=2, max_size=6),
)
def test_as_many_seeds_as_are_named_do_settle_it(rates, others) -> None:
    """Held against Welch's interval of so many jobs that lie as these do."""
    candidate, baseline = arm_speed(*rates), arm_speed(*others)
    needed = seeds_to_settle(baseline, candidate, 1.2, 0.95)
    assume(needed is not None and min(np.ptp(rates), np.ptp(others)) > 1e-3)
    line = np.linspace(-1.0, 1.0, needed)
    many = [
        it.mean() + it.std(ddof=1) * line / line.std(ddof=1)
        for it in (np.log(candidate.rates), np.log(baseline.rates))
    ]
    interval = scipy.stats.ttest_ind(*many, equal_var=False).confidence_interval(0.90)
    assert not interval.low < math.log(1.2) < interval.high


# Busy machines.


BUSY = {"load": 9.61, "processors": 2, "steal": 0.12}
QUIET = {"load": 2.0, "processors": 2, "steal": 0.0}
NAMED = (
    "9.6 processes wanted to run on 2 processors and its hypervisor gave 12% of the processors' "
    "time to others"
)


@pytest.mark.parametrize(
    ("checkups", "expected"),
    [
        ([BUSY, BUSY, QUIET, BUSY], NAMED),
        ([QUIET, BUSY, QUIET, QUIET], None),  # one disturbed job of four
        ([{"load": 2.6, "processors": 2, "steal": 0.001}], None),
        ([{"load": 9.0}, {"load": "much", "processors": 2}], None),
        ([{"load": float("nan"), "processors": True}], None),
        ([], None),
    ],
)
def test_waiting_processes_and_stolen_time_are_named(execution, checkups, expected) -> None:
    records = []
    for checkup in checkups:
        execution.alter("baseline", 1, checkup=checkup)
        records.append(execution.record("baseline", 1))
    assert busy_machine(records) == expected


def test_what_a_busy_machine_left_undecided_asks_for_no_more_seeds() -> None:
    undecided = arm_speed(110.0, 150.0, 140.0)
    assert judged(undecided)[0].seeds_needed is not None
    assert judged(undecided, busy=NAMED)[0].seeds_needed is None
    # How long compiling takes is timed once in a job, so nothing averages the neighbours out.
    slow_to_compile = arm_speed(140.0, 141.0, 139.0, compile_seconds=150.0)
    assert judged(slow_to_compile, busy=NAMED)[1].code is Code.SPEED_UNDECIDED
    for clear in (arm_speed(*QUICK), arm_speed(*SLOW)):
        assert judged(clear)[1] == judged(clear, busy=NAMED)[1]


# Alternating blocks.


def job_of(
    logs: np.ndarray,
    *,
    step: float = 0.01,
    rest: float = 0.0,
    batch_ratio: float = 1.0,
    steady: np.ndarray | None = None,
    first: np.ndarray | None = None,
    stalls: tuple[int, ...] = (),
) -> PairedJob:
    """A job whose pairs have these logarithms of the baseline's step over its own, and whose
    training's steps take the share `rest` longer than those of its pairs."""
    own = np.full(len(logs), step)
    before = own * np.exp(logs)
    own[list(stalls)] += 1.0
    began = np.arange(len(logs)) % 2 == 0 if first is None else first
    trained = np.full(400, step * (1.0 + rest)) if steady is None else steady
    return paired_job(PairedBlocks(before, own, began), trained, 5, batch_ratio, 0.0)


def noisy(ratio: float, seed: int, noise: float = 0.01, pairs: int = 40) -> np.ndarray:
    return math.log(ratio) + noise * np.random.default_rng(seed).standard_normal(pairs)


def speedup(jobs: list[PairedJob], confidence: float = 0.95) -> Any:
    return judge_pairs(jobs, confidence).speedup


@pytest.mark.parametrize(
    ("ratio", "options", "expected"),
    [
        (1.4, {}, 1.4),
        (1.5, {"rest": 0.25}, (1.5 + 0.25) / 1.25),
        (1.5, {"rest": -0.3}, 1.5),  # a probe that was slower than the training adds no rest
        (1.0, {"batch_ratio": 2.0}, 2.0),  # as long a step, for twice the samples
    ],
)
def test_the_rest_of_a_step_is_added_to_both_and_batches_count_by_samples(
    ratio, options, expected
) -> None:
    found = judge_pairs([job_of(noisy(ratio, seed), **options) for seed in SEEDS], 0.95)
    assert found.speedup.estimate == pytest.approx(expected, rel=5e-3)
    assert found.speedup.upper / found.speedup.lower < 1.03
    rest = max(options.get("rest", 0.0), 0.0)
    assert found.rest_share == pytest.approx(rest / (1.0 + rest), rel=1e-3)


def test_what_is_not_known_of_the_rest_widens_the_bounds() -> None:
    """The rest of a smaller batch, by step or by sample; and a rest that varied."""
    found = speedup([job_of(noisy(1.0, it), rest=1.0, batch_ratio=2.0) for it in SEEDS])
    assert found.lower < (1.0 + 0.5) / 2.0 * 2.0
    assert found.upper > (1.0 + 1.0) / 2.0 * 2.0
    steady = np.repeat([0.01, 0.016], 200)
    certain, varied = (
        speedup([job_of(noisy(1.5, seed), steady=it) for seed in SEEDS]) for it in (None, steady)
    )
    assert varied.lower < (1.5 + 0.6) / 1.6 < 1.48 < certain.lower


def test_stalls_and_drifts_within_pairs_favour_neither_arm() -> None:
    stalled = [job_of(noisy(1.4, seed), stalls=(3, 10, 17, 30)) for seed in SEEDS]
    assert speedup(stalled).estimate == pytest.approx(1.4, rel=0.01)
    # Each pair's second block is 20% slower, and the baseline began three of four pairs.
    first = np.arange(40) % 4 != 0
    drift = np.where(first, -1.0, 1.0) * math.log(1.2)
    found = speedup([job_of(math.log(1.3) + drift, first=first)] * 3)
    assert found.estimate == pytest.approx(1.3)


def test_jobs_are_no_surer_than_their_pairs_and_those_that_remember_count_for_less() -> None:
    agreeing = speedup([job_of(noisy(1.4, 1, noise=0.2))] * 3)
    assert agreeing.upper / agreeing.lower > 1.03
    wandering = 0.02 * np.cumsum(np.random.default_rng(3).standard_normal(40)) / 3.0
    independent = np.random.default_rng(4).permutation(wandering)
    one, other = (speedup([job_of(math.log(1.4) + it)] * 3) for it in (wandering, independent))
    widths = [math.log(it.upper / it.lower) for it in (one, other)]
    assert widths[0] > 1.5 * widths[1] > 0.0


@pytest.mark.slow
@given(
    ratio=st.floats(0.5, 3.0),
    rest=st.floats(0.0, 2.0),
    noise=st.floats(0.0, 0.3),
    confidence=st.floats(0.6, 0.99),
    scale=st.floats(0.01, 100.0),
)
def test_bounds_hold_the_estimate_widen_with_the_confidence_and_have_no_unit(
    ratio, rest, noise, confidence, scale
) -> None:
    jobs, scaled = (
        [job_of(noisy(ratio, it, noise, 20), step=step, rest=rest) for it in SEEDS]
        for step in (0.01, 0.01 * scale)
    )
    found, surer = speedup(jobs, confidence), speedup(jobs, confidence + 0.005)
    assert surer.lower <= found.lower <= found.estimate <= found.upper <= surer.upper
    other = speedup(scaled, confidence)
    assert (other.estimate, other.lower) == pytest.approx((found.estimate, found.lower))


def test_more_jobs_are_needed_where_jobs_differ_more() -> None:
    def needed(spread: float) -> int | None:
        ratios = [1.3 * math.exp(spread * (seed - 2)) for seed in SEEDS]
        return jobs_to_settle([job_of(noisy(it, 1)) for it in ratios], 1.2, 0.95)

    assert 3 < needed(0.1) < needed(0.2)
    assert needed(3.0) is None


def test_pairs_of_two_jobs_decide_where_separate_jobs_cannot(execution) -> None:
    for (arm, seed), factor in {("baseline", 1): 1.5, ("fast", 2): 1.6, ("fast", 3): 1.2}.items():
        execution.alter(arm, seed, steps__seconds=factor * execution.seconds(arm, seed))
    execution.pair("fast", 1, 1.5)
    candidate = execution.judge().candidates[0]
    assert (candidate.outcome, candidate.speed.source) == (Outcome.INCONCLUSIVE, SpeedSource.JOBS)
    execution.pair("fast", 3, 1.5)
    candidate = execution.judge().candidates[0]
    assert (candidate.outcome, candidate.speed.source) == (Outcome.PASS, SpeedSource.PAIRS)
    assert candidate.speed.by_jobs.lower < 1.2 < candidate.speed.speedup.lower


def test_pairs_that_the_jobs_contradict_pass_nothing_but_may_refuse() -> None:
    """More candidates, whose bounds are wider, make nothing pass that would not alone."""
    found = []
    for by_jobs, by_pairs in ((1.0, 1.5), (1.5, 1.0)):
        execution = build_execution(speedup=by_jobs, candidates=("fast", "other", "third"))
        for seed in SEEDS:
            execution.pair("fast", seed, by_pairs)
        found.append(execution.judge().candidates[0])
    undecided, failed = found
    assert (undecided.outcome, undecided.speed.disagree) == (Outcome.INCONCLUSIVE, True)
    assert failed.outcome is Outcome.FAIL
    assert Code.SPEED_NOT_PAIRED in {it.code for it in failed.notes}


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": 5},
        {"declared": {"instance_type": "ml.g5.2xlarge"}},
        {"recorded": {"baseline_compiler": "xla"}},
        {"recorded": {"baseline_batch_size": 16}},
        {"recorded": {"candidate_batch_size": 64}},
        {"blocks": {"candidate_seconds": np.full(20, 1e-300)}},
        {"blocks": {"baseline_first": np.ones(20, dtype=bool)}},
        {"blocks": {name: np.full(20, 40.0) for name in ("baseline_seconds", "candidate_seconds")}},
    ],
    ids=str,
)
def test_pairs_of_something_else_do_not_count(execution, change) -> None:
    execution.declare("fast", **change.get("declared", {}))
    for seed in SEEDS:
        execution.pair("fast", seed, 3.0, pairs=change.get("pairs", 20))
        record = execution.record("fast", seed)
        recorded = dataclasses.replace(record.evidence.paired_speed, **change.get("recorded", {}))
        execution.alter("fast", seed, paired_speed=recorded)
        execution.put("fast", seed, paired=change.get("blocks", {}))
    candidate = execution.judge().candidates[0]
    assert candidate.speed.source is SpeedSource.JOBS
    assert Code.SPEED_NOT_PAIRED in {it.code for it in candidate.notes}


# Compilation, cold and warm.

COLD = CompileCacheRecord("cold", "There was none.", "f" * 64, 0, 2, 0, 570_000)
EARLIER = {"cold_compile_seconds": 25.0, "cold_first_step_seconds": 25.2}
WARM = CompileCacheRecord("warm", "All were there.", "f" * 64, 2, 0, 570_000, 0, 0.1, **EARLIER)


def compiled(
    execution: Any, cache: CompileCacheRecord | None, seconds: float, seed: int = 1
) -> EvidenceRecord:
    """A job with a first step and a compile time of so many seconds."""
    times = execution.seconds("fast", seed)
    times[0] = seconds + 0.25
    execution.alter("fast", seed, steps__seconds=times)
    execution.alter("fast", seed, compiler__compile_seconds=seconds, compile_cache=cache)
    return execution.record("fast", seed)


@pytest.mark.parametrize(
    ("jobs", "cold", "warm"),
    [
        (
            ((COLD, 20.0), (COLD, 30.0), (WARM, 3.0)),
            CompileTime(25.0, 25.25, jobs=2),
            CompileTime(3.0, 3.25, jobs=1),
        ),
        (
            ((WARM, 2.0), (WARM, 4.0)),
            CompileTime(25.0, 25.2, jobs=2, earlier=True),
            CompileTime(3.0, 3.25, jobs=2),
        ),
        (((None, 21.0),), CompileTime(21.0, 21.25, jobs=1), None),
    ],
)
def test_warm_counts_as_soon_as_it_was_measured(execution, jobs, cold, warm) -> None:
    times = compile_times([compiled(execution, *job) for job in jobs])
    assert (times.cold, times.warm) == (cold, warm)
    assert times.state is (CompileState.WARM if warm else CompileState.COLD)
    assert times.seconds == (warm or cold).seconds


def test_a_first_job_that_compiled_all_is_no_time_between_steps(execution) -> None:
    """Its minutes are compilation: of these trainings, though the next ones will be warm."""
    for seed in SEEDS:
        compiled(execution, COLD if seed == 1 else WARM, 300.0 if seed == 1 else 0.5, seed)
    candidate = execution.judge().candidates[0]
    assert candidate.speed.run.candidate_compile_seconds == 0.5
    assert candidate.outcome is Outcome.PASS
    ignored = dataclasses.replace(COLD, state="ignored", reason="it is damaged.")
    compiled(execution, ignored, 20.0)
    seen = {it.seed: it for it in observe(execution.experiment, execution.records).replicates}
    assert [seen[it].cache_ignored for it in SEEDS] == ["it is damaged.", None, None]


# What slowed a candidate.


def test_each_hindrance_has_a_sentence_of_some_length() -> None:
    for kind in SLOWDOWN_KINDS:
        hindrance = Slowdown(kind, 2.0, 0.62, ("train.py:42", "x" * 5000), "y" * 5000)
        assert RULES[kind] in slowdown_sentence(hindrance)
        assert len(slowdown_sentence(hindrance)) < 900


WASTEFUL = PaddingRecord(
    padding="max",
    lengths=(64,),
    bucket_lengths=(16, 64),
    tokens=300,
    positions=PaddedPositions(max=1000, buckets=420, longest=700),
    histogram_upto=(16, 64),
    histogram_documents=(30, 10),
)


PADDED = {
    padding: dataclasses.replace(WASTEFUL, padding=padding, lengths=lengths)
    for padding, lengths in (("max", (64,)), ("buckets", (16, 64)), ("longest", ()))
}
"""What jobs say that pad in each way."""
