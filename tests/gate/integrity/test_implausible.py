"""Evidence in which every number may be true and all of them together may not: none of it passes.

Each builds on a sound execution whose candidate passes, with all that follows from the change.
"""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest

from compilegate.gate.reasons import Code, Outcome
from compilegate.job.evidence import CheckpointRecord, Examples, Resumption, TrainedOn
from tests.gate.conftest import with_digests
from tests.gate.integrity.changes import (
    ARMS,
    SEEDS,
    change_compiler,
    change_recipe,
    change_speed,
    declare,
    set_seconds,
)

NO_INPUTS = np.zeros(0, dtype=np.int64)


def put_scores(execution, arm, seed, scores):
    examples = execution.record(arm, seed).examples
    losses = -np.log(scores[np.arange(len(scores)), examples.labels])
    execution.change_examples(arm, seed, **{**vars(examples), "scores": scores, "losses": losses})


def soft_scores(execution, arm, seed, noise=1.0):
    """Scores with digits of their own, as models have them, in place of two values."""
    scores = execution.record(arm, seed).examples.scores
    own = np.random.default_rng([seed, len(arm)]).normal(0.0, noise, scores.shape)
    shared = np.random.default_rng(seed).normal(0.0, noise, scores.shape)
    raised = scores * np.exp(0.3 * shared + 0.1 * own)
    return raised / raised.sum(axis=1, keepdims=True)


def own_losses(execution):
    """Training losses as seeds have them: each begins at its own."""
    for arm in ARMS:
        for seed in SEEDS:
            own = np.random.default_rng([seed, len(arm)]).normal(1.0, 0.02, 60)
            both = np.random.default_rng(seed).normal(1.0, 0.02)
            execution.change_steps(arm, seed, loss=np.linspace(1.4, 0.2, 60) * own * both)


def a_candidate_that_knows_the_answers(execution):
    for seed in SEEDS:
        examples = execution.record("fast", seed).examples
        known = np.eye(examples.scores.shape[1])[examples.labels]
        put_scores(
            execution, "fast", seed, 0.3 * soft_scores(execution, "fast", seed) + 0.7 * known
        )


def seeds_that_a_device_alone_tells_apart(execution):
    for arm in ARMS:
        for seed in SEEDS:
            put_scores(execution, arm, seed, soft_scores(execution, arm, seed))
    first = execution.record("fast", 1).examples.scores
    for seed in SEEDS:
        noise = np.random.default_rng(seed).normal(0.0, 0.02, first.shape)
        scores = first * np.exp(noise)
        put_scores(execution, "fast", seed, scores / scores.sum(axis=1, keepdims=True))


def seeds_that_begin_with_one_loss(execution):
    own_losses(execution)
    first = execution.record("fast", 1).steps.loss
    for seed in SEEDS:
        drift = np.random.default_rng(seed).normal(0.0, 1e-3, 60) * np.linspace(0.0, 1.0, 60)
        execution.change_steps("fast", seed, loss=first * (1.0 + drift))


def half_of_the_rows_of_the_baseline(execution):
    for arm in ARMS:
        for seed in SEEDS:
            put_scores(execution, arm, seed, soft_scores(execution, arm, seed))
    for seed in SEEDS:
        scores = execution.record("fast", seed).examples.scores.copy()
        scores[:1000] = execution.record("baseline", seed).examples.scores[:1000]
        put_scores(execution, "fast", seed, scores)


def trained_on(execution, arm, seed, hashes):
    record = dataclasses.replace(
        execution.record(arm, seed), trained_on=TrainedOn(np.sort(hashes), NO_INPUTS)
    )
    execution.records[arm, seed] = with_digests(record)


def half_of_the_training_data(execution):
    hashes = np.random.default_rng(1).integers(-(2**62), 2**62, 5000)
    for seed in SEEDS:
        trained_on(execution, "baseline", seed, hashes)
        trained_on(execution, "fast", seed, hashes[::2])


def other_inputs_under_the_same_ids(execution):
    for arm in ARMS:
        for seed in SEEDS:
            inputs = np.random.default_rng(len(arm)).integers(-(2**62), 2**62, 2000)
            execution.change_examples(arm, seed, inputs=inputs)


def a_graph_that_gave_way_to_eager(execution):
    for seed in SEEDS:
        change_compiler(execution, "fast", seed, proof={"unique_graphs": 1, "graph_calls": 3})


def a_backend_that_compiles_nothing(execution):
    for seed in SEEDS:
        proof = {"backend": "eager", "unique_graphs": 1, "graph_calls": 60}
        change_compiler(execution, "fast", seed, proof=proof)


def memory_of_nothing(execution):
    for seed in SEEDS:
        execution.change_evidence("fast", seed, peak_memory_bytes=0)


def data_of_an_empty_list(execution):
    for arm in ARMS:
        for seed in SEEDS:
            digests = execution.record(arm, seed).evidence.digests
            empty = hashlib.sha256(b"[]").hexdigest()
            execution.change_evidence(arm, seed, digests={**digests, "data": empty})


def hardware_that_is_not_available(execution):
    for arm in ARMS:
        for seed in SEEDS:
            environment = {"torch": "2.13.0", "cpu": "N/A", "accelerator": "None"}
            execution.change_evidence(arm, seed, environment=environment)


def parity_of_tensors_that_are_equal(execution):
    """By their digests; by their errors they are not."""
    for seed in SEEDS:
        same = hashlib.sha256(str(seed).encode()).hexdigest()
        compared = {"exact": same, "compiled": same, "eager": same}
        parity = execution.record("fast", seed).evidence.parity
        execution.change_evidence(
            "fast", seed, parity=dataclasses.replace(parity, compared=compared)
        )


def a_compilation_before_the_first_step(execution):
    for seed in SEEDS:
        train = execution.record("fast", seed).evidence.speed.train_seconds
        change_speed(execution, "fast", seed, total_seconds=train + 303.0)


def pairs_far_from_what_trained(execution):
    for seed in SEEDS:
        execution.pair("fast", seed, 6.0)


IMPLAUSIBLE = [
    (a_candidate_that_knows_the_answers, Code.METRIC_TOO_GOOD),
    (seeds_that_a_device_alone_tells_apart, Code.MODEL_SEEDS_CLOSE),
    (seeds_that_begin_with_one_loss, Code.STEPS_SEEDS_ALIKE),
    (half_of_the_rows_of_the_baseline, Code.MODEL_OUTPUTS_OF_ANOTHER),
    (half_of_the_training_data, Code.DATA_OTHER_TRAINED_ON),
    (other_inputs_under_the_same_ids, Code.EXAMPLES_INPUTS_DIFFER),
    (a_graph_that_gave_way_to_eager, Code.COMPILER_FEW_CALLS),
    (a_backend_that_compiles_nothing, Code.COMPILER_DIFFERS),
    (memory_of_nothing, Code.EVIDENCE_IMPLAUSIBLE),
    (data_of_an_empty_list, Code.DIGEST_PLACEHOLDER),
    (hardware_that_is_not_available, Code.CONFOUND_HARDWARE_UNKNOWN),
    (parity_of_tensors_that_are_equal, Code.PARITY_NOT_MEASURED),
    (a_compilation_before_the_first_step, Code.SPEED_LOST_ELSEWHERE),
    (pairs_far_from_what_trained, Code.SPEED_DISAGREES),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "code"), IMPLAUSIBLE)
def test_it_does_not_pass_and_says_why(execution, change, code):
    change(execution)
    verdict = execution.judge()
    candidate = verdict.candidates[0]
    assert candidate.outcome is not Outcome.PASS
    found = [*candidate.reasons, *verdict.baseline.reasons]
    assert code in {reason.code for reason in found if reason.outcome is not Outcome.PASS}
    for reason in found:
        assert reason.sentence.isprintable()
        assert len(reason.sentence) < 700


def losses_alone(execution, scale):
    """No scores and no classes, as of tokens."""
    for arm in ARMS:
        for seed in SEEDS:
            examples = execution.record(arm, seed).examples
            rows = len(examples.ids)
            own = np.random.default_rng([seed, len(arm)]).normal(1.0, 0.02, rows)
            losses = scale(arm, np.random.default_rng(1).gamma(2.0, 1.0, rows) * own)
            changed = Examples(
                examples.ids, np.zeros(rows, dtype=np.int64), np.zeros((rows, 0)), losses
            )
            execution.put_examples(arm, seed, changed, {"loss": float(losses.mean())})


LOSS = {"loss": {"direction": "lower", "margin": 0.1}}


@pytest.mark.parametrize(
    ("scale", "code"),
    [
        (lambda arm, losses: losses, None),
        (lambda arm, losses: losses * (0.5 if arm == "fast" else 1.0), Code.METRIC_TOO_GOOD),
        (lambda arm, losses: np.full(len(losses), losses.mean()), Code.EXAMPLES_LOSSES_EQUAL),
    ],
    ids=["as they are", "half of them", "their mean"],
)
def test_losses_that_no_score_checks_must_still_be_likely(new_execution, scale, code):
    execution = new_execution(metrics=LOSS)
    losses_alone(execution, scale)
    candidate = execution.judge().candidates[0]
    found = {reason.code for reason in candidate.reasons if reason.outcome is not Outcome.PASS}
    assert found == (set() if code is None else {code})


def test_a_candidate_that_is_a_little_better_passes(execution):
    for seed in SEEDS:
        examples = execution.record("fast", seed).examples
        known = np.eye(examples.scores.shape[1])[examples.labels]
        put_scores(execution, "fast", seed, 0.99 * examples.scores + 0.01 * known)
    assert execution.judge().candidates[0].outcome is Outcome.PASS


def test_a_last_layer_of_zeros_makes_all_seeds_begin_alike(execution):
    own_losses(execution)
    for arm in ARMS:
        for seed in SEEDS:
            loss = execution.record(arm, seed).steps.loss.copy()
            loss[0] = np.log(4.0)
            execution.change_steps(arm, seed, loss=loss)
    assert execution.judge().candidates[0].outcome is Outcome.PASS


def test_outputs_of_few_digits_are_no_copied_rows(execution):
    """Half precision makes many scores of different models equal."""
    for arm in ARMS:
        for seed in SEEDS:
            scores = soft_scores(execution, arm, seed).astype(np.float16).astype(float)
            put_scores(execution, arm, seed, np.maximum(scores, 1e-6))
    codes = {reason.code for reason in execution.judge().candidates[0].reasons}
    assert Code.MODEL_OUTPUTS_OF_ANOTHER not in codes


def test_inputs_that_one_arm_alone_recorded_are_no_difference(execution):
    for seed in SEEDS:
        execution.change_examples("fast", seed, inputs=np.arange(2000))
    assert execution.judge().candidates[0].outcome is Outcome.PASS


def test_micro_batches_of_one_arm_count_as_the_steps_that_they_make(execution):
    """Eight at a time, four times, beside 32 at once."""
    declare(execution, "fast", batch_size=8)
    for seed in SEEDS:
        change_recipe(execution, "fast", seed, batch_size=8, global_batch_size=32)
        change_recipe(execution, "baseline", seed, global_batch_size=32)
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.PASS
    assert candidate.speed.speedup.estimate == pytest.approx(1.5, rel=0.02)


def test_a_batch_that_a_job_claims_beyond_what_is_declared_makes_no_speed(execution):
    declare(execution, "fast", batch_size=33)
    for seed in SEEDS:
        set_seconds(execution, "fast", seed, execution.record("fast", seed).steps.seconds * 1.5)
        change_recipe(execution, "fast", seed, batch_size=33, global_batch_size=66)
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.FAIL
    assert candidate.speed.speedup.estimate < 1.1


def stop_at(execution, arm, counts):
    for seed, count in zip(SEEDS, counts, strict=True):
        steps = execution.record(arm, seed).steps
        execution.change_steps(arm, seed, loss=steps.loss[:count], seconds=steps.seconds[:count])


@pytest.mark.slow
def test_jobs_that_stop_early_are_compared_within_the_tolerance(new_execution):
    execution = new_execution()
    stop_at(execution, "fast", (58, 60, 59))
    assert execution.judge().candidates[0].outcome is Outcome.PASS
    stop_at(execution, "fast", (50, 52, 51))
    candidate = execution.judge().candidates[0]
    told = [reason.sentence for reason in candidate.reasons if reason.outcome is Outcome.FAIL]
    assert len(told) == 1
    assert "examples_tolerance, as where jobs stop early" in told[0]
    execution = new_execution(examples_tolerance=0.3)
    stop_at(execution, "baseline", (60, 50, 55))
    stop_at(execution, "fast", (52, 60, 50))
    assert execution.judge().candidates[0].outcome is Outcome.PASS


def test_pairs_in_another_unit_are_not_used(execution):
    for seed in SEEDS:
        execution.pair("fast", seed, 1.6)
        record = execution.record("fast", seed)
        blocks = dataclasses.replace(
            record.paired,
            baseline_seconds=1000.0 * record.paired.baseline_seconds,
            candidate_seconds=1000.0 * record.paired.candidate_seconds,
        )
        execution.put_pairs("fast", seed, record.evidence.paired_speed, blocks)
    candidate = execution.judge().candidates[0]
    (told,) = (note.sentence for note in candidate.notes if note.code is Code.SPEED_NOT_PAIRED)
    assert "another unit" in told


def test_targets_in_single_precision_are_the_same_targets(new_execution):
    execution = new_execution(metrics={"mae": {"direction": "lower", "margin": 0.05}})
    targets = np.random.default_rng(1).normal(10.0, 3.0, 2000)
    for arm in ARMS:
        for seed in SEEDS:
            own = np.random.default_rng([seed, len(arm)]).normal(0.0, 0.1, 2000)
            told = targets if arm == "baseline" else targets.astype(np.float32).astype(float)
            ids = execution.record(arm, seed).examples.ids
            none = np.zeros(2000, dtype=np.int64)
            changed = Examples(
                ids, none, np.zeros((2000, 0)), np.abs(own), targets=told, predictions=told + own
            )
            metrics = {"mae": float(np.abs(own).mean())}
            execution.put_examples(arm, seed, changed, metrics)
    assert execution.judge().candidates[0].outcome is Outcome.PASS


@pytest.mark.filterwarnings("error")
def test_columns_in_half_precision_are_judged_as_the_numbers_that_they_are(execution):
    for seed in SEEDS:
        record = execution.record("fast", seed)
        steps = dataclasses.replace(
            record.steps,
            seconds=record.steps.seconds.astype(np.float16),
            loss=record.steps.loss.astype(np.float16),
        )
        execution.records["fast", seed] = with_digests(dataclasses.replace(record, steps=steps))
    assert execution.judge().candidates[0].outcome is Outcome.PASS


def test_time_that_a_lost_machine_took_is_no_time_lost_elsewhere(execution):
    for seed in SEEDS:
        speed = execution.record("fast", seed).evidence.speed
        later = {"total_seconds": speed.total_seconds + 90.0}
        change_speed(execution, "fast", seed, train_seconds=speed.train_seconds + 90.0, **later)
        checkpoints = CheckpointRecord(2, 0.0, None, (Resumption(30, 36, 90.0),))
        execution.change_evidence("fast", seed, checkpoints=checkpoints)
    codes = {reason.code for reason in execution.judge().candidates[0].reasons}
    assert Code.SPEED_LOST_ELSEWHERE not in codes
