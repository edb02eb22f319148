"""Scalars that the jobs reported, with no examples behind them: judged over seeds only."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from compilegate.gate.reasons import Code, Outcome

GUARDS = {"bleu": {"direction": "higher", "margin": 0.5, "reported": True}}


def report(execution, arm, values, name="bleu"):
    for seed, value in zip(execution.experiment.seeds, values, strict=True):
        metrics = {**execution.record(arm, seed).evidence.metrics, name: value}
        execution.change_evidence(arm, seed, metrics=metrics)


def judged(new_execution, before, after, guards=GUARDS):
    execution = new_execution(metrics=guards, seeds=tuple(range(len(before))), examples=200)
    report(execution, "baseline", before)
    report(execution, "fast", after)
    return execution.judge().candidates[0]


def test_the_interval_is_that_of_the_paired_t_test_over_seeds(new_execution):
    before, after = np.array([27.1, 27.4, 26.9, 27.2]), np.array([27.0, 27.5, 26.8, 27.2])
    metric = judged(new_execution, before.tolist(), after.tolist()).metrics[0]
    expected = scipy.stats.ttest_rel(after, before).confidence_interval(0.90)
    assert metric.delta.estimate == pytest.approx(-0.025)
    assert (metric.delta.lower, metric.delta.upper) == pytest.approx(tuple(expected))
    assert (metric.outcome, metric.seeds, metric.examples) == (Outcome.PASS, 4, 0)


def test_a_scalar_that_is_clearly_worse_fails(new_execution):
    candidate = judged(new_execution, [27.1, 27.4, 26.9], [25.1, 25.3, 24.8])
    assert candidate.metrics[0].outcome is Outcome.FAIL


@pytest.mark.slow
@pytest.mark.parametrize("after", [27.1, 20.0])
def test_with_one_seed_nothing_is_said_of_a_scalar(new_execution, after):
    candidate = judged(new_execution, [27.1], [after])
    assert candidate.metrics[0].outcome is Outcome.INCONCLUSIVE
    reason = next(item for item in candidate.reasons if item.numbers.get("metric") == "bleu")
    assert reason.code is Code.QUALITY_SINGLE_SEED
    assert "reported without examples" in reason.sentence
    assert "with unknown bounds" in reason.sentence


@pytest.mark.parametrize("after", [[27.1, 27.3, 27.6], [27.2, 27.4, 27.7]])
def test_differences_without_any_spread_prove_nothing(new_execution, after):
    """Nor do those of which only the rounding of the last bit differs: 27.2 - 27.1 is not 0.1."""
    candidate = judged(new_execution, [27.1, 27.3, 27.6], after)
    assert candidate.metrics[0].outcome is Outcome.INCONCLUSIVE
    assert Code.QUALITY_NO_SPREAD in {reason.code for reason in candidate.reasons}


def test_a_scalar_that_was_not_reported_fails(new_execution):
    execution = new_execution(metrics=GUARDS)
    report(execution, "baseline", [27.1, 27.4, 26.9])
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.FAIL
    assert Code.METRIC_MISSING in {reason.code for reason in candidate.reasons}


def test_a_relative_margin_is_a_fraction_of_the_size_of_a_negative_baseline(new_execution):
    guard = {"direction": "higher", "margin": 0.1, "relative": True, "reported": True}
    candidate = judged(new_execution, [-2.00, -2.02, -1.99], [-2.05, -2.06, -2.05], {"bleu": guard})
    assert candidate.metrics[0].margin == pytest.approx(0.2003, abs=1e-4)
    assert candidate.metrics[0].outcome is Outcome.PASS


def test_a_margin_relative_to_a_baseline_of_zero_asks_for_an_absolute_one(new_execution):
    guard = {"direction": "higher", "margin": 0.1, "relative": True, "reported": True}
    candidate = judged(new_execution, [0.0, 0.0], [0.2, 0.3], {"bleu": guard})
    assert candidate.metrics[0].outcome is Outcome.INCONCLUSIVE
    assert "declare an absolute margin" in candidate.reasons[0].sentence


def without_examples(execution, arms=("baseline", "fast")):
    """Jobs that measured their steps and reported metrics, and wrote no examples at all."""
    for arm in arms:
        for seed in execution.experiment.seeds:
            metrics = {"bleu": execution.record(arm, seed).evidence.metrics["bleu"]}
            execution.put_examples(arm, seed, None, metrics)
    return execution


def reported(new_execution, after, guards=GUARDS, **settings):
    execution = new_execution(metrics=guards, **settings)
    report(execution, "baseline", [27.1, 27.4, 26.9])
    report(execution, "fast", after)
    return execution


@pytest.mark.parametrize(
    ("after", "outcome"), [([27.0, 27.5, 26.8], Outcome.PASS), ([25.0, 25.5, 24.8], Outcome.FAIL)]
)
def test_jobs_without_examples_are_judged_by_what_they_reported(new_execution, after, outcome):
    candidate = without_examples(reported(new_execution, after)).judge().candidates[0]
    assert candidate.outcome is outcome
    assert {"quality", "speed", "parity"} <= {reason.code.subject for reason in candidate.reasons}


def test_what_needs_examples_is_lacking_and_the_rest_is_judged(new_execution):
    guards = {**GUARDS, "accuracy": {"direction": "higher", "margin": 0.01}}
    execution = without_examples(reported(new_execution, [25.0, 25.5, 24.8], guards))
    verdict = execution.judge()
    codes = {reason.code for reason in verdict.candidates[0].reasons}
    assert {reason.code for reason in verdict.baseline.reasons} == {Code.EVIDENCE_LACKING}
    assert {Code.EVIDENCE_LACKING, Code.QUALITY_WORSE, Code.SPEED_FASTER} <= codes
    assert [metric.metric for metric in verdict.candidates[0].metrics] == ["bleu"]


@pytest.mark.parametrize("arms", [("fast",), ("baseline",), ("baseline", "fast")])
def test_a_watched_metric_and_a_slice_without_examples_are_told(new_execution, arms):
    guards = {**GUARDS, "accuracy": {"direction": "higher", "watched": True}}
    slices = [{"column": "language", "metric": "accuracy", "watched": True}]
    execution = reported(new_execution, [27.0, 27.5, 26.8], guards, slices=slices)
    verdict = without_examples(execution, arms).judge()
    notes = {note.code: note.sentence for note in verdict.candidates[0].notes}
    assert verdict.candidates[0].outcome is Outcome.PASS
    assert "accuracy is watched but cannot be computed" in notes[Code.METRIC_UNDEFINED]


def test_a_guarded_slice_without_examples_fails(new_execution):
    guards = {**GUARDS, "accuracy": {"direction": "higher", "watched": True}}
    slices = [{"column": "language", "metric": "accuracy", "margin": 0.1}]
    execution = reported(new_execution, [27.0, 27.5, 26.8], guards, slices=slices)
    verdict = without_examples(execution).judge()
    told = {reason.sentence for reason in verdict.baseline.reasons}
    assert "Seed 1: accuracy of 'language' needs examples, and the job wrote none." in told
