"""Steps taken in turns: what their pairs say of the speed-up, and when they decide."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.judgements import SpeedSource
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.speed.paired import PairedJob, Pairs, jobs_to_settle, judge_pairs
from compilegate.job.evidence import PairedBlocks, PairedSpeedRecord

SEEDS = (1, 2, 3)


def paired_job(
    logs: np.ndarray, *, step: float = 0.01, rest: float = 0.0, batch_ratio: float = 1.0
) -> PairedJob:
    """A job whose pairs have these logarithms of the baseline's step over its own, and whose
    training's steps take the share `rest` longer than those of its pairs."""
    own = np.full(len(logs), step)
    blocks = PairedBlocks(own * np.exp(logs), own, np.arange(len(logs)) % 2 == 0)
    return PairedJob(blocks, np.full(400, step * (1.0 + rest)), 5, batch_ratio)


def noisy(ratio: float, seed: int, noise: float = 0.01, pairs: int = 40) -> np.ndarray:
    return math.log(ratio) + noise * np.random.default_rng(seed).standard_normal(pairs)


def speedup(jobs: list[PairedJob], confidence: float = 0.95):
    return judge_pairs(jobs, confidence).speedup


def test_the_speed_up_is_the_ratio_of_the_two_steps():
    found = speedup([paired_job(noisy(1.4, seed)) for seed in SEEDS])
    assert found.lower < 1.4 < found.upper
    assert found.upper / found.lower < 1.02


@pytest.mark.parametrize(("rest", "expected"), [(0.25, (1.5 + 0.25) / 1.25), (1.0, 2.5 / 2.0)])
def test_what_the_blocks_leave_out_of_a_step_is_added_to_both(rest, expected):
    judged = judge_pairs([paired_job(noisy(1.5, seed), rest=rest) for seed in SEEDS], 0.95)
    assert judged.speedup.estimate == pytest.approx(expected, rel=5e-3)
    assert judged.steps_alone == pytest.approx(1.5, rel=5e-3)
    assert judged.rest_share == pytest.approx(rest / (1.0 + rest), rel=1e-3)


def test_a_probe_that_was_slower_than_the_training_adds_no_negative_rest():
    judged = judge_pairs([paired_job(noisy(1.5, seed), rest=-0.3) for seed in SEEDS], 0.95)
    assert judged.speedup.estimate == pytest.approx(1.5, rel=5e-3)


def test_steps_of_different_batches_are_compared_by_samples():
    """The candidate's step takes as long as the baseline's, for twice the samples."""
    found = speedup([paired_job(noisy(1.0, seed), batch_ratio=2.0) for seed in SEEDS])
    assert found.estimate == pytest.approx(2.0, rel=5e-3)


def test_the_rest_of_a_smaller_batch_is_not_known_and_the_bounds_have_room_for_both_ways():
    """For each step as long as the candidate's, or for each sample: then half as long."""
    found = speedup([paired_job(noisy(1.0, seed), rest=1.0, batch_ratio=2.0) for seed in SEEDS])
    assert found.lower < (1.0 + 0.5) / 2.0 * 2.0
    assert found.upper > (1.0 + 1.0) / 2.0 * 2.0


def test_a_rest_that_varied_over_the_training_widens_the_bounds():
    def job(seed, slow):
        steady = np.where(np.arange(400) < 200, 0.01, 0.01 * slow)
        return dataclasses.replace(paired_job(noisy(1.5, seed)), steady_seconds=steady)

    calm, varied = (speedup([job(seed, slow) for seed in SEEDS]) for slow in (1.0, 1.6))
    assert varied.lower < (1.5 + 0.6) / 1.6 < 1.48 < calm.lower
    assert varied.upper >= calm.upper


@pytest.mark.parametrize("stalled", ["baseline_seconds", "candidate_seconds"])
def test_stalls_in_a_few_blocks_move_the_speed_up_hardly(stalled):
    def job(seed):
        found = paired_job(noisy(1.4, seed))
        seconds = getattr(found.blocks, stalled).copy()
        seconds[[3, 10, 17, 30]] += 1.0
        blocks = dataclasses.replace(found.blocks, **{stalled: seconds})
        return dataclasses.replace(found, blocks=blocks)

    found = speedup([job(seed) for seed in SEEDS])
    assert found.estimate == pytest.approx(1.4, rel=0.01)


def test_a_drift_within_pairs_favours_neither_arm():
    """Each pair's second block is 20% slower, and the baseline began three of four pairs."""
    first = np.arange(40) % 4 != 0
    logs = math.log(1.3) + np.where(first, -1.0, 1.0) * math.log(1.2)
    found = paired_job(logs)
    blocks = dataclasses.replace(found.blocks, baseline_first=first)
    jobs = [dataclasses.replace(found, blocks=blocks)] * 3
    assert speedup(jobs).estimate == pytest.approx(1.3)


def test_pairs_that_remember_the_last_one_count_for_less():
    steps = np.random.default_rng(3).standard_normal(40)
    wandering = 0.02 * np.cumsum(steps) / 3.0
    independent = np.random.default_rng(4).permutation(wandering)
    one, other = (
        speedup([paired_job(math.log(1.4) + logs)] * 3) for logs in (wandering, independent)
    )
    assert one.upper / one.lower > other.upper / other.lower > 1.0


def test_jobs_that_agree_by_chance_are_no_surer_than_their_pairs():
    jobs = [paired_job(noisy(1.4, 1, noise=0.2))] * 3
    found = speedup(jobs)
    assert found.upper / found.lower > 1.03


@pytest.mark.slow
@given(
    ratio=st.floats(0.5, 3.0),
    rest=st.floats(0.0, 2.0),
    noise=st.floats(0.0, 0.3),
    confidence=st.floats(0.6, 0.99),
    pairs=st.integers(6, 30),
)
def test_bounds_hold_the_estimate_and_widen_with_the_confidence(
    ratio, rest, noise, confidence, pairs
):
    jobs = [paired_job(noisy(ratio, seed, noise, pairs), rest=rest) for seed in SEEDS]
    found, surer = speedup(jobs, confidence), speedup(jobs, confidence + 0.005)
    assert surer.lower <= found.lower <= found.estimate <= found.upper <= surer.upper


@pytest.mark.slow
@given(ratio=st.floats(0.5, 3.0), rest=st.floats(0.0, 2.0), scale=st.floats(0.01, 100.0))
def test_the_unit_of_time_does_not_matter(ratio, rest, scale):
    one, other = (
        speedup([paired_job(noisy(ratio, seed), step=step, rest=rest) for seed in SEEDS])
        for step in (0.01, 0.01 * scale)
    )
    assert one.estimate == pytest.approx(other.estimate)
    assert one.lower == pytest.approx(other.lower)


@pytest.mark.slow
@given(ratio=st.floats(1.05, 3.0), rest=st.floats(0.01, 2.0))
def test_a_rest_brings_the_speed_up_nearer_to_one(ratio, rest):
    alone, whole = (
        speedup([paired_job(noisy(ratio, seed, 0.0), rest=more) for seed in SEEDS]).estimate
        for more in (0.0, rest)
    )
    assert 1.0 < whole < alone


def test_what_is_needed_to_settle_it_is_more_where_jobs_differ_more():
    def needed(spread):
        ratios = [1.3 * math.exp(spread * (seed - 2)) for seed in SEEDS]
        jobs = [paired_job(noisy(ratio, 1)) for ratio in ratios]
        return jobs_to_settle(jobs, 1.2, 0.95)

    assert 3 < needed(0.1) < needed(0.2)
    assert needed(3.0) is None


def judged(execution):
    (candidate,) = execution.judge().candidates
    notes = {note.code: note.sentence for note in candidate.notes}
    reasons = {reason.code: reason for reason in candidate.reasons}
    return candidate, reasons, notes


def shake(execution, factors):
    """Let neighbours slow whole jobs of the baseline and of the candidate down."""
    for (arm, seed), factor in factors.items():
        seconds = execution.record(arm, seed).steps.seconds
        execution.change_steps(arm, seed, seconds=seconds * factor)


NEIGHBOURS = {("baseline", 1): 1.5, ("fast", 2): 1.6, ("fast", 3): 1.2}


@pytest.mark.slow
def test_pairs_decide_where_separate_jobs_cannot(new_execution):
    execution = new_execution(speedup=1.5)
    shake(execution, NEIGHBOURS)
    assert execution.judge().candidates[0].outcome is Outcome.INCONCLUSIVE
    for seed in SEEDS:
        execution.pair("fast", seed, 1.5)
    candidate, reasons, notes = judged(execution)
    assert (candidate.outcome, candidate.speed.source) == (Outcome.PASS, SpeedSource.PAIRS)
    assert candidate.speed.by_jobs.lower < 1.2 < candidate.speed.speedup.lower
    assert "by 60 pairs of blocks taken in turns in 3 jobs" in reasons[Code.SPEED_FASTER].sentence
    assert not {Code.SPEED_DISAGREES, Code.SPEED_NOT_PAIRED} & set(notes)


def test_the_rest_of_a_step_is_told_where_it_counts(new_execution):
    execution = new_execution(speedup=1.5)
    for seed in SEEDS:
        execution.pair("fast", seed, 2.0, rest=0.5)
    _, reasons, _ = judged(execution)
    told = reasons[Code.SPEED_FASTER].sentence
    assert "Fast enough: 1.50 times as fast" in told
    assert "2.00 times without the 50% of a step that loader, loss and logging take" in told


def test_steps_in_turns_that_are_contradicted_by_the_jobs_own_times_pass_nothing(new_execution):
    execution = new_execution(speedup=1.0)
    for seed in SEEDS:
        execution.pair("fast", seed, 1.5)
    candidate, reasons, _ = judged(execution)
    assert candidate.outcome is Outcome.INCONCLUSIVE
    assert candidate.speed.disagree
    told = reasons[Code.SPEED_DISAGREES].sentence
    assert "Steps taken in turns say 1.50 times" in told
    assert "the jobs' own step times 1.0" in told
    assert "So neither decided" in told


def test_where_steps_in_turns_refuse_what_the_jobs_own_times_pass_the_former_decide(new_execution):
    execution = new_execution(speedup=1.5)
    for seed in SEEDS:
        execution.pair("fast", seed, 1.0)
    candidate, reasons, notes = judged(execution)
    assert candidate.outcome is Outcome.FAIL
    assert Code.SPEED_BELOW_MINIMUM in reasons
    assert "Those taken in turns decided" in notes[Code.SPEED_DISAGREES]


@pytest.mark.slow
def test_a_contradiction_does_not_depend_on_the_number_of_candidates(new_execution):
    """Else more candidates, whose bounds are wider, could make one pass that would not alone."""
    outcomes = []
    for candidates in (("fast",), ("fast", "other", "third")):
        execution = new_execution(speedup=1.0, candidates=candidates)
        for seed in SEEDS:
            execution.pair("fast", seed, 1.5)
        outcomes.append(execution.judge().candidates[0].outcome)
    assert outcomes == [Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE]


@pytest.mark.slow
def test_with_one_replicate_the_jobs_own_step_times_decide_and_it_is_said(new_execution):
    execution = new_execution(seeds=(1,), speedup=1.5)
    execution.pair("fast", 1, 1.4)
    candidate, _, notes = judged(execution)
    assert candidate.speed.source is SpeedSource.JOBS
    assert candidate.speed.speedup.estimate == pytest.approx(1.5, rel=0.05)
    assert "say 1.40 times, in a single job" in notes[Code.SPEED_NOT_PAIRED]
    assert "The jobs' own step times decided." in notes[Code.SPEED_NOT_PAIRED]


def test_an_obstacle_is_told_and_the_jobs_own_step_times_decide(execution):
    told = PairedSpeedRecord(0.0, "eager", 32, 32, 0, obstacle="XLA has the device for itself")
    for seed in SEEDS:
        execution.put_pairs("fast", seed, told, None)
    candidate, reasons, notes = judged(execution)
    assert candidate.speed.source is SpeedSource.JOBS
    assert Code.SPEED_FASTER in reasons
    assert "were not timed in turns: XLA has the device for itself." in notes[Code.SPEED_NOT_PAIRED]


def test_the_jobs_that_have_pairs_are_enough_if_there_are_two(execution):
    execution.pair("fast", 1, 1.5)
    execution.pair("fast", 3, 1.5)
    told = PairedSpeedRecord(0.0, "eager", 32, 32, 0, obstacle="there was no time")
    execution.put_pairs("fast", 2, told, None)
    candidate, _, notes = judged(execution)
    assert (candidate.speed.paired.jobs, candidate.speed.source) == (2, SpeedSource.PAIRS)
    assert "Some jobs' steps were not timed in turns" in notes[Code.SPEED_NOT_PAIRED]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"baseline_compiler": "xla"}, "the baseline's compiler was xla there"),
        ({"baseline_batch_size": 16}, "the baseline's batch size was 16 there"),
        ({"candidate_batch_size": 64}, "the candidate's batch size was 64 there"),
    ],
)
def test_pairs_of_other_arms_than_declared_do_not_count(execution, changed, told):
    for seed in SEEDS:
        execution.pair("fast", seed, 3.0)
        record = execution.record("fast", seed)
        paired = dataclasses.replace(record.evidence.paired_speed, **changed)
        execution.put_pairs("fast", seed, paired, record.paired)
    candidate, _, notes = judged(execution)
    assert candidate.speed.source is SpeedSource.JOBS
    assert told in notes[Code.SPEED_NOT_PAIRED]


def test_too_few_pairs_do_not_count(execution):
    for seed in SEEDS:
        execution.pair("fast", seed, 3.0, pairs=5)
    candidate, _, notes = judged(execution)
    assert candidate.speed.source is SpeedSource.JOBS
    assert "there are 5 pairs, and 6 are the least" in notes[Code.SPEED_NOT_PAIRED]


@pytest.mark.parametrize("damage", [1e-300, 1e300])
def test_times_that_are_no_durations_do_not_count(execution, damage):
    for seed in SEEDS:
        execution.pair("fast", seed, 1.5)
        record = execution.record("fast", seed)
        seconds = record.paired.candidate_seconds.copy()
        seconds[3] = damage
        blocks = dataclasses.replace(record.paired, candidate_seconds=seconds)
        execution.put_pairs("fast", seed, record.evidence.paired_speed, blocks)
    candidate, _, notes = judged(execution)
    assert candidate.speed.source is SpeedSource.JOBS
    assert "one of its step times is no duration" in notes[Code.SPEED_NOT_PAIRED]


def test_arms_on_other_machines_cannot_be_compared_in_one_process(execution):
    arms = dict(execution.experiment.arms)
    arms["fast"] = arms["fast"].model_copy(update={"instance_type": "ml.g5.2xlarge"})
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})
    for seed in SEEDS:
        execution.pair("fast", seed, 3.0)
    candidate, _, notes = judged(execution)
    assert candidate.speed.source is SpeedSource.JOBS
    assert "the arms differ in instance_type" in notes[Code.SPEED_NOT_PAIRED]


def test_pairs_that_were_changed_after_they_were_written_fail_the_replicate(execution):
    execution.pair("fast", 1, 1.5)
    record = execution.record("fast", 1)
    faster = dataclasses.replace(
        record.paired, candidate_seconds=record.paired.candidate_seconds / 2
    )
    execution.records["fast", 1] = dataclasses.replace(record, paired=faster)
    candidate, reasons, _ = judged(execution)
    assert candidate.outcome is Outcome.FAIL
    assert "paired.npz" in reasons[Code.DIGEST_DIFFERS].sentence


def test_without_any_pairs_nothing_is_said_of_them(execution):
    _, _, notes = judged(execution)
    assert Code.SPEED_NOT_PAIRED not in notes
    assert not Pairs().decide


def test_break_even_follows_the_speed_up_that_decided(new_execution):
    """By their own times these jobs are slower than the baseline's, and would never break even."""
    execution = new_execution(speedup=1.5)
    shake(execution, {("fast", 1): 1.6, ("fast", 2): 1.6, ("fast", 3): 1.45, ("baseline", 1): 1.4})
    for seed in SEEDS:
        execution.pair("fast", seed, 1.5)
    speed = execution.judge().candidates[0].speed
    assert speed.by_jobs.estimate < 1.1
    assert speed.run.break_even_steps is not None
