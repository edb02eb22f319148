"""Evidence that contradicts itself, beyond the mistakes of `test_exploits`: none of it passes.

Each builds on a sound execution whose candidate passes; what is changed is changed with all that
follows from it, so that nothing but the contradiction itself can be found.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.integrity.copied_times import constant_multiple
from compilegate.gate.reasons import Code, Outcome
from compilegate.job.evidence import CheckpointRecord
from tests.gate.integrity.changes import (
    ARMS,
    SEEDS,
    change_compiler,
    change_recipe,
    change_speed,
    declare,
    set_seconds,
)


def data_of_a_pattern(execution):
    for arm in ARMS:
        for seed in SEEDS:
            digests = execution.record(arm, seed).evidence.digests
            execution.change_evidence(arm, seed, digests={**digests, "data": "deadbeef" * 8})


def a_model_with_the_digest_of_the_data(execution):
    digests = execution.record("fast", 1).evidence.digests
    execution.change_evidence("fast", 1, digests={**digests, "model": digests["data"]})


def megabytes_for_bytes(execution):
    for seed in SEEDS:
        execution.change_evidence("fast", seed, peak_memory_bytes=5000)


def a_proof_of_a_name_and_no_graph(execution):
    proof = {"backend": "inductor", "unique_graphs": 0}
    for seed in SEEDS:
        change_compiler(execution, "fast", seed, proof=proof)


def pairs_copied_from_another_job(execution):
    execution.pair("fast", 1, 1.6)
    first = execution.record("fast", 1)
    for seed in SEEDS[1:]:
        execution.put_pairs("fast", seed, first.evidence.paired_speed, first.paired)


def parity_of_zeros_under_the_compiler(execution):
    for seed in SEEDS:
        compiled = execution.record("fast", seed).parity.compiled
        execution.change_parity("fast", seed, compiled=np.zeros_like(compiled))


def parity_below_zero(execution):
    for seed in SEEDS:
        compiled = execution.record("fast", seed).parity.compiled
        execution.change_parity("fast", seed, compiled=-compiled)


def one_class_to_evaluate(execution):
    for arm in ARMS:
        for seed in SEEDS:
            examples = execution.record(arm, seed).examples
            shift = (np.arange(examples.scores.shape[1]) + examples.labels[:, None]) % (
                examples.scores.shape[1]
            )
            scores = np.take_along_axis(examples.scores, shift, axis=1)  # the label comes first
            changed = dataclasses.replace(
                examples,
                scores=scores,
                labels=np.zeros_like(examples.labels),
                losses=-np.log(scores[:, 0]),
            )
            right = float((scores.argmax(axis=1) == 0).mean())
            metrics = {"accuracy": right, "log_loss": float(changed.losses.mean())}
            execution.put_examples(arm, seed, changed, metrics)


def other_weights_to_begin_with(execution):
    for seed in SEEDS:
        steps = len(execution.record("fast", seed).steps.loss)
        execution.change_steps("fast", seed, loss=np.linspace(2.9, 0.2, steps))


def a_model_that_is_not_what_was_trained(execution):
    for seed in SEEDS:
        steps = len(execution.record("fast", seed).steps.loss)
        execution.change_steps("fast", seed, loss=np.linspace(1.4, 1.1, steps))


def a_baseline_that_becomes_slower(execution):
    """In all of its jobs, half way: a hot machine, or a log that grows."""
    for seed in SEEDS:
        seconds = execution.record("baseline", seed).steps.seconds.copy()
        set_seconds(execution, "fast", seed, seconds.copy())
        seconds[len(seconds) // 2 :] *= 1.8
        set_seconds(execution, "baseline", seed, seconds)


def time_lost_in_checkpoints(execution):
    for seed in SEEDS:
        speed = execution.record("fast", seed).evidence.speed
        change_speed(
            execution,
            "fast",
            seed,
            train_seconds=speed.train_seconds + 60.0,
            total_seconds=speed.total_seconds + 60.0,
        )
        execution.change_evidence("fast", seed, checkpoints=CheckpointRecord(9, 60.0, None))


def times_of_the_baseline_times_a_constant(execution):
    for seed in SEEDS:
        set_seconds(execution, "fast", seed, execution.record("baseline", seed).steps.seconds * 0.6)


def times_of_another_seed_times_a_constant(execution):
    for seed, other in zip(SEEDS, (2, 3, 1), strict=True):
        seconds = execution.record("baseline", other).steps.seconds * 0.6
        seconds[0] += 0.2
        set_seconds(execution, "fast", seed, seconds)


def times_of_the_baseline_in_another_order(execution):
    for seed in SEEDS:
        seconds = np.roll(execution.record("baseline", seed).steps.seconds[::-1] * 0.6, seed)
        set_seconds(execution, "fast", seed, seconds)


def times_of_the_baseline_times_a_constant_and_rounded(execution):
    for seed in SEEDS:
        seconds = execution.record("baseline", seed).steps.seconds * 0.6
        set_seconds(execution, "fast", seed, seconds.round(6))


def half_of_the_times_of_the_baseline(execution):
    """And the other half of a clock's own."""
    for seed in SEEDS:
        seconds = execution.record("fast", seed).steps.seconds.copy()
        seconds[20:] = 0.6 * execution.record("baseline", seed).steps.seconds[20:]
        set_seconds(execution, "fast", seed, seconds)


def seeds_of_one_clock(execution):
    for seed in SEEDS[1:]:
        first = execution.record("fast", 1).steps.seconds
        set_seconds(execution, "fast", seed, first * (1.0 + 0.01 * seed))


def blocks_of_the_baseline_times_a_constant(execution):
    for seed in SEEDS:
        execution.pair("fast", seed, 1.6)
        record = execution.record("fast", seed)
        blocks = dataclasses.replace(
            record.paired, candidate_seconds=record.paired.baseline_seconds / 1.6
        )
        execution.put_pairs("fast", seed, record.evidence.paired_speed, blocks)


def a_job_of_a_million_seconds(execution):
    for seed in SEEDS:
        change_speed(execution, "fast", seed, total_seconds=1e6)


def a_baseline_of_a_million_seconds(execution):
    for seed in SEEDS:
        change_speed(execution, "baseline", seed, total_seconds=1e6)


def ten_thousand_graphs(execution):
    for seed in SEEDS:
        change_compiler(execution, "fast", seed, graphs=10_000)


def five_hundred_breaks(execution):
    for seed in SEEDS:
        change_compiler(execution, "fast", seed, graph_breaks=500)


def a_proof_of_names_alone(execution):
    for seed in SEEDS:
        proof = {"backend": "inductor", "torch": "2.13.0"}
        change_compiler(execution, "fast", seed, proof=proof)


def a_proof_of_graphs_that_nobody_called(execution):
    for seed in SEEDS:
        change_compiler(execution, "fast", seed, proof={"unique_graphs": 3, "graph_calls": 0})


def parity_a_million_times_too_large(execution):
    """In both steps alike, so that their ratio is what it was."""
    for seed in SEEDS:
        errors = execution.record("fast", seed).parity
        execution.change_parity(
            "fast", seed, eager=1e6 * errors.eager, compiled=1e6 * errors.compiled
        )


def half_precision_a_million_times_too_large(execution):
    for arm in ARMS:
        declare(execution, arm, precision="bf16")
        for seed in SEEDS:
            change_recipe(execution, arm, seed, precision="bf16")
    for seed in SEEDS:
        record = execution.record("fast", seed)
        parity = dataclasses.replace(record.evidence.parity, precision="bf16")
        execution.change_evidence("fast", seed, parity=parity)
        errors = record.parity
        execution.change_parity(
            "fast", seed, eager=1e10 * errors.eager, compiled=1e10 * errors.compiled
        )


CONTRADICTIONS = [
    (one_class_to_evaluate, Code.EXAMPLES_ONE_CLASS),
    (other_weights_to_begin_with, Code.STEPS_OTHER_START),
    (a_model_that_is_not_what_was_trained, Code.STEPS_OTHER_END),
    (a_baseline_that_becomes_slower, Code.SPEED_DRIFTS),
    (time_lost_in_checkpoints, Code.SPEED_LOST_ELSEWHERE),
    (data_of_a_pattern, Code.DIGEST_PLACEHOLDER),
    (a_model_with_the_digest_of_the_data, Code.DIGEST_PLACEHOLDER),
    (megabytes_for_bytes, Code.EVIDENCE_IMPLAUSIBLE),
    (a_proof_of_a_name_and_no_graph, Code.COMPILER_NO_PROOF),
    (pairs_copied_from_another_job, Code.EVIDENCE_DUPLICATED),
    (parity_of_zeros_under_the_compiler, Code.PARITY_NOT_MEASURED),
    (parity_below_zero, Code.PARITY_NOT_MEASURED),
    (times_of_the_baseline_times_a_constant, Code.STEPS_TIMES_OF_ANOTHER),
    (times_of_another_seed_times_a_constant, Code.STEPS_TIMES_OF_ANOTHER),
    (times_of_the_baseline_in_another_order, Code.STEPS_TIMES_OF_ANOTHER),
    (times_of_the_baseline_times_a_constant_and_rounded, Code.STEPS_TIMES_OF_ANOTHER),
    (half_of_the_times_of_the_baseline, Code.STEPS_TIMES_OF_ANOTHER),
    (seeds_of_one_clock, Code.STEPS_TIMES_OF_ANOTHER),
    (blocks_of_the_baseline_times_a_constant, Code.STEPS_TIMES_OF_ANOTHER),
    (a_job_of_a_million_seconds, Code.STEPS_TOTAL_UNACCOUNTED),
    (a_baseline_of_a_million_seconds, Code.STEPS_TOTAL_UNACCOUNTED),
    (ten_thousand_graphs, Code.COMPILER_IN_PIECES),
    (five_hundred_breaks, Code.COMPILER_IN_PIECES),
    (a_proof_of_names_alone, Code.COMPILER_NO_PROOF),
    (a_proof_of_graphs_that_nobody_called, Code.COMPILER_NO_PROOF),
    (parity_a_million_times_too_large, Code.PARITY_BEYOND_ROUNDING),
    (half_precision_a_million_times_too_large, Code.PARITY_BEYOND_ROUNDING),
]


@pytest.mark.slow
@pytest.mark.parametrize(("contradiction", "code"), CONTRADICTIONS)
def test_it_does_not_pass_and_says_why(execution, contradiction, code):
    assert execution.judge().candidates[0].outcome is Outcome.PASS
    contradiction(execution)
    verdict = execution.judge()
    candidate = verdict.candidates[0]
    assert candidate.outcome is not Outcome.PASS
    found = [*candidate.reasons, *verdict.baseline.reasons]
    assert code in {reason.code for reason in found if reason.outcome is not Outcome.PASS}
    for reason in found:
        assert reason.sentence.isprintable()
        assert len(reason.sentence) < 700


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("key", ["compile_seconds", "train_seconds", "total_seconds", "seconds"])
def test_a_number_that_is_none_is_refused_in_memory_as_in_a_folder(execution, key, value):
    if key == "compile_seconds":
        change_compiler(execution, "fast", 1, **{key: value})
    elif key == "seconds":
        execution.change_evidence("fast", 1, checkpoints=CheckpointRecord(1, value, None))
    else:
        change_speed(execution, "fast", 1, **{key: value})
    (candidate,) = execution.judge().candidates
    assert candidate.outcome is Outcome.FAIL
    (told,) = (each.sentence for each in candidate.reasons if "expected" in each.sentence)
    assert candidate.reasons[0].code is Code.EVIDENCE_UNREADABLE
    assert f"{key} is " in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"seconds": np.ones(3)}, "60 losses but 3 step times"),
        ({"loss": np.ones((60, 2))}, "column loss has type float64 and 2 dimensions"),
        ({"seconds": np.array(["long"] * 60)}, "column seconds has type <U4"),
        ({"seconds": None}, "column seconds is not an array"),
    ],
)
def test_columns_that_are_none_are_refused_in_memory(execution, columns, told):
    record = execution.record("fast", 1)
    steps = dataclasses.replace(record.steps, **columns)
    execution.records["fast", 1] = dataclasses.replace(record, steps=steps)
    (candidate,) = execution.judge().candidates
    assert candidate.outcome is Outcome.FAIL
    assert any(told in each.sentence for each in candidate.reasons)


HONEST_CLOCKS = {
    "loud": (0.02, 1.0, 9),
    "quiet": (0.0003, 1.0, 9),
    "still": (0.00001, 1.0, 9),
    "of milliseconds": (0.02, 1.0, 3),
    "of tenths of milliseconds": (0.005, 1.0, 4),
    "of texts of any length": (0.0005, 0.5, 9),
}


@pytest.mark.slow
@pytest.mark.parametrize("clock", HONEST_CLOCKS)
def test_two_clocks_that_time_the_same_work_are_two(execution, clock):
    noise, lengths, digits = HONEST_CLOCKS[clock]
    for seed in SEEDS:
        work = np.random.default_rng(seed).uniform(lengths, 1.0, 60)
        for arm, step in (("baseline", 0.05), ("fast", 0.03)):
            own = np.random.default_rng([seed, len(arm)]).lognormal(0.0, noise, 60)
            set_seconds(execution, arm, seed, (step * work * own).round(digits))
    codes = {reason.code for reason in execution.judge().candidates[0].reasons}
    assert Code.STEPS_TIMES_OF_ANOTHER not in codes


@pytest.mark.slow
@given(
    digits=st.integers(2, 9),
    steps=st.sampled_from([30, 500, 5000]),
    spread=st.sampled_from([0.003, 0.03, 0.3]),
    noise=st.sampled_from([0.0003, 0.003, 0.03]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_coarse_clock_is_no_copy(digits, steps, spread, noise, seed):
    """Rounded times repeat, and steps of the same texts resemble each other."""
    generator = np.random.default_rng(seed)
    work = generator.lognormal(np.log(0.12), spread, steps)
    one, other = (
        np.maximum(each * work * generator.lognormal(0.0, noise, steps), 0.1**digits).round(digits)
        for each in (1.0, 0.7)
    )
    assert constant_multiple(one, other) is None
    assert constant_multiple(one, generator.permutation(other)) is None


def test_other_random_numbers_in_float64_are_no_contradiction(execution):
    """Both steps are as far from it, since they drew the same."""
    for seed in SEEDS:
        errors = execution.record("fast", seed).parity
        drawn = np.random.default_rng(seed).uniform(0.1, 0.9, errors.eager.shape)
        execution.change_parity("fast", seed, eager=drawn, compiled=drawn + errors.compiled)
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.PASS
    assert Code.PARITY_CANNOT_TELL in {note.code for note in candidate.notes}


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 3])
def test_rows_that_were_multiplied_count_once(new_execution, times):
    """Under other ids, though the outputs are too coarse to tell rows apart by."""
    execution = new_execution(worse_by=0.002)
    once = execution.judge().candidates[0]
    for arm in ARMS:
        for seed in SEEDS:
            examples = execution.record(arm, seed).examples
            order = np.random.default_rng(5).permutation(np.tile(np.arange(2000), times))
            columns = {
                name: getattr(examples, name)[order] for name in ("labels", "scores", "losses")
            }
            ids = np.array([f"row-{number}" for number in range(len(order))])
            execution.change_examples(arm, seed, ids=ids, **columns)
    candidate = execution.judge().candidates[0]
    assert Code.GROUPS_REPEATED in {note.code for note in candidate.notes}
    assert candidate.metrics[0].delta.lower == pytest.approx(once.metrics[0].delta.lower, rel=0.05)
