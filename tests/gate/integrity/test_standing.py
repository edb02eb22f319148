"""A guard that fails hides nothing else that is known: it is judged and said, the gravest first."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from compilegate.gate.reasons import Code, Outcome

SEEDS = (1, 2, 3)
BROKEN_GRADIENT = np.array([[4e-7, 4e-7, 1.0], [4e-7, 4e-7, 1.0]])
"""Parity errors of a compiled step whose last gradient is zero throughout."""


def recompiled(execution, arm, seed):
    change_compiler(execution, arm, seed, recompilations=1)


def not_compiled(execution, arm, seed):
    change_compiler(execution, arm, seed, ran=False)


def compiled(execution, arm, seed):
    change_compiler(execution, arm, seed, ran=True)


def without_proof(execution, arm, seed):
    digests = dict(execution.record(arm, seed).evidence.digests)
    del digests["model"]
    execution.change_evidence(arm, seed, digests=digests)


def other_rate(execution, arm, seed):
    recipe = {**execution.record(arm, seed).evidence.recipe, "learning_rate": 0.5}
    execution.change_evidence(arm, seed, recipe=recipe)


def on_other_data(execution, arm, seed):
    digests = {**execution.record(arm, seed).evidence.digests, "data": "e" * 64}
    execution.change_evidence(arm, seed, digests=digests)


def misreported(execution, arm, seed):
    metrics = {**execution.record(arm, seed).evidence.metrics, "accuracy": 0.5}
    execution.change_evidence(arm, seed, metrics=metrics)


def exploded(execution, arm, seed):
    loss = execution.record(arm, seed).steps.loss.copy()
    loss[5] = np.nan
    execution.change_steps(arm, seed, loss=loss)


def change_compiler(execution, arm, seed, **changed):
    compiler = dataclasses.replace(execution.record(arm, seed).evidence.compiler, **changed)
    execution.change_evidence(arm, seed, compiler=compiler)


def without_times(execution, arm, seed):
    seconds = execution.record(arm, seed).steps.seconds.copy()
    seconds[30] = -1.0
    execution.change_steps(arm, seed, seconds=seconds)


def without_scores(execution, arm, seed):
    scores = execution.record(arm, seed).examples.scores.copy()
    scores[3, 0] = np.nan
    examples = dataclasses.replace(execution.record(arm, seed).examples, scores=scores)
    execution.put_examples(arm, seed, examples, execution.record(arm, seed).evidence.metrics)


def all_seeds(damage, execution, arm):
    for seed in SEEDS:
        damage(execution, arm, seed)


def codes(execution):
    return [reason.code for reason in execution.judge().candidates[0].reasons]


def subjects(found):
    return {code.subject for code in found}


GUARDS = {
    Code.COMPILER_RECOMPILED: recompiled,
    Code.COMPILER_DID_NOT_RUN: not_compiled,
    Code.DIGEST_MISSING: without_proof,
    Code.RECIPE_LEARNING_RATE: other_rate,
    Code.DATA_DIFFERS: on_other_data,
    Code.METRIC_DISAGREES: misreported,
    Code.STEPS_LOSS_NOT_FINITE: exploded,
}


def test_broken_gradients_and_lost_accuracy_come_before_a_recompilation(new_execution):
    execution = new_execution(worse_by=0.08, speedup=1.0)
    all_seeds(recompiled, execution, "fast")
    for seed in SEEDS:
        execution.change_parity("fast", seed, compiled=BROKEN_GRADIENT)
    assert list(dict.fromkeys(codes(execution))) == [
        Code.PARITY_DIFFERS,
        Code.QUALITY_WORSE,
        Code.QUALITY_RELEASED_WORSE,
        Code.SPEED_BELOW_MINIMUM,
        Code.COMPILER_RECOMPILED,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("guard", GUARDS)
def test_quality_speed_and_parity_are_judged_whatever_guard_fails(execution, guard):
    all_seeds(GUARDS[guard], execution, "fast")
    (candidate,) = execution.judge().candidates
    passed = {reason.code for reason in candidate.reasons if reason.outcome is Outcome.PASS}
    assert candidate.outcome is Outcome.FAIL
    assert guard in {reason.code for reason in candidate.reasons}
    assert passed == {Code.PARITY_ALIKE, Code.QUALITY_NOT_WORSE, Code.SPEED_FASTER}
    assert candidate.metrics[0].seeds == 3


@pytest.mark.slow
def test_a_candidate_whose_guard_fails_is_never_the_one_that_is_released(new_execution):
    execution = new_execution(candidates=("fast", "other"), speedup=2.0)
    all_seeds(recompiled, execution, "fast")
    assert execution.judge().decision.arm == "other"


def test_where_scores_are_damaged_speed_and_parity_are_judged(execution):
    all_seeds(without_scores, execution, "fast")
    found = codes(execution)
    assert {Code.EXAMPLES_NOT_FINITE, Code.SPEED_FASTER, Code.PARITY_ALIKE} <= set(found)
    assert "quality" not in subjects(found)


def test_where_times_are_damaged_quality_and_parity_are_judged(execution):
    all_seeds(without_times, execution, "fast")
    found = codes(execution)
    assert {Code.STEPS_SECONDS_INVALID, Code.QUALITY_NOT_WORSE, Code.PARITY_ALIKE} <= set(found)
    assert "speed" not in subjects(found)


def test_what_is_left_of_the_seeds_is_compared_with_the_same_seeds_of_the_baseline(new_execution):
    execution = new_execution(worse_by=0.08)
    del execution.records["fast", 2]
    (candidate,) = execution.judge().candidates
    assert [reason.code for reason in candidate.reasons][:2] == [
        Code.QUALITY_WORSE,
        Code.QUALITY_WORSE,
    ]
    assert Code.EVIDENCE_MISSING in {reason.code for reason in candidate.reasons}
    accuracy = [execution.record("baseline", seed).evidence.metrics["accuracy"] for seed in (1, 3)]
    assert candidate.metrics[0].seeds == 2
    assert candidate.metrics[0].baseline == pytest.approx(np.mean(accuracy))


@pytest.mark.slow
def test_candidates_that_lost_different_seeds_are_each_compared(new_execution):
    execution = new_execution(candidates=("fast", "other"))
    del execution.records["fast", 1]
    del execution.records["other", 3]
    for candidate in execution.judge().candidates:
        assert {metric.seeds for metric in candidate.metrics} == {2}


def test_an_unsound_baseline_is_compared_with_and_nothing_passes(execution):
    all_seeds(compiled, execution, "baseline")
    verdict = execution.judge()
    (candidate,) = verdict.candidates
    assert not verdict.baseline.sound
    assert verdict.decision.arm == "none"
    assert candidate.outcome is Outcome.FAIL
    assert Code.QUALITY_NOT_WORSE in {reason.code for reason in candidate.reasons}
    (unsound,) = (it for it in candidate.reasons if it.code is Code.BASELINE_UNSOUND)
    assert "what is compared with it cannot pass" in unsound.sentence


def test_without_any_evidence_of_the_baseline_nothing_is_compared(execution):
    for seed in SEEDS:
        del execution.records["baseline", seed]
    (candidate,) = execution.judge().candidates
    assert (candidate.metrics, candidate.speed) == ((), None)
    assert {reason.code for reason in candidate.reasons} == {
        Code.BASELINE_UNSOUND,
        Code.PARITY_ALIKE,
    }
