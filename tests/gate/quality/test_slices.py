"""Metrics on parts of the validation data."""

from __future__ import annotations

import numpy as np
import pytest

from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import GateSettings

LANGUAGES = np.array(["de", "en", "en", "en"] * 499 + ["fr"] * 4)
ACCURACY = {"accuracy": {"direction": "higher", "margin": 0.01}}


def with_languages(new_execution, *slices, metrics=ACCURACY, **changes):
    execution = new_execution(metrics=metrics, slices=list(slices), **changes)
    for arm, seed in execution.records:
        execution.change_examples(arm, seed, slices={"language": LANGUAGES})
    return execution


def by_part(candidate):
    return {metric.part: metric for metric in candidate.metrics}


def codes(findings):
    return {finding.code for finding in findings}


def guard(**changes):
    return {"column": "language", "metric": "accuracy", "margin": 0.03, **changes}


def test_a_slice_is_judged_on_its_own_examples(new_execution):
    candidate = with_languages(new_execution, guard(value="de")).judge().candidates[0]
    part = by_part(candidate)["language = de"]
    assert part.examples == 499
    assert part.margin == 0.03
    assert part.outcome is Outcome.PASS
    assert candidate.outcome is Outcome.PASS


def test_a_candidate_that_is_worse_in_one_slice_only_fails_for_that_slice(new_execution):
    lenient = {"accuracy": {"direction": "higher", "margin": 0.05}}
    execution = with_languages(new_execution, guard(value="de"), metrics=lenient)
    for seed in execution.experiment.seeds:
        examples = execution.record("fast", seed).examples
        harmed = (LANGUAGES == "de") & (np.arange(2000) % 40 == 0)  # one in ten of them
        scores = np.where(harmed[:, None], np.roll(examples.scores, 1, axis=1), examples.scores)
        losses = -np.log(scores[np.arange(2000), examples.labels])
        execution.change_examples("fast", seed, scores=scores, losses=losses)
    candidate = execution.judge().candidates[0]
    worse = next(reason for reason in candidate.reasons if reason.outcome is Outcome.FAIL)
    assert by_part(candidate)["language = de"].outcome is Outcome.FAIL
    assert worse.code is Code.QUALITY_WORSE
    assert "accuracy where language = de" in worse.sentence


def test_without_a_value_each_category_is_a_slice_and_a_small_one_is_said(new_execution):
    candidate = with_languages(new_execution, guard()).judge().candidates[0]
    assert set(by_part(candidate)) == {None, "language = de", "language = en"}
    too_small = next(item for item in candidate.reasons if item.code is Code.SLICE_TOO_SMALL)
    assert "language = fr is not judged: 4 examples, min_examples is 30" in too_small.sentence
    assert candidate.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"value": "it"}, "No example has language = it"),
        ({"column": "region"}, "no column 'region' (columns of categories: language)"),
    ],
)
def test_a_guarded_slice_that_is_missing_fails(new_execution, changes, told):
    candidate = with_languages(new_execution, guard(**changes)).judge().candidates[0]
    assert candidate.reasons[0].code is Code.SLICE_MISSING
    assert told in candidate.reasons[0].sentence
    assert candidate.outcome is Outcome.FAIL


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"value": "it"}, {"column": "region"}, {"value": "fr"}])
def test_a_watched_slice_decides_nothing_but_is_said_to_be_missing(new_execution, changes):
    watched = guard(**changes, margin=None, watched=True)
    candidate = with_languages(new_execution, watched).judge().candidates[0]
    assert codes(candidate.notes) & {Code.SLICE_MISSING, Code.SLICE_TOO_SMALL}
    assert candidate.outcome is Outcome.PASS


def test_a_watched_slice_is_measured_without_a_verdict(new_execution):
    watched = guard(value="de", margin=None, watched=True)
    candidate = with_languages(new_execution, watched, worse_by=0.008).judge().candidates[0]
    part = by_part(candidate)["language = de"]
    assert (part.outcome, part.margin, part.limit) == (None, None, None)
    assert part.delta.lower < part.delta.estimate < part.delta.upper
    assert Code.QUALITY_WATCHED in codes(candidate.notes)


@pytest.mark.slow
def test_a_column_of_identifiers_is_no_column_of_categories(new_execution):
    execution = with_languages(new_execution, guard())
    for arm, seed in execution.records:
        execution.change_examples(
            arm, seed, slices={"language": np.array([f"l{index}" for index in range(2000)])}
        )
    candidate = execution.judge().candidates[0]
    assert candidate.reasons[0].code is Code.SLICE_UNDEFINED
    assert "2000 categories" in candidate.reasons[0].sentence


@pytest.mark.slow
def test_a_metric_that_a_slice_does_not_determine_is_inconclusive_there(new_execution):
    guards = {**ACCURACY, "auroc": {"direction": "higher", "margin": 0.02}}
    part = {"column": "of_class", "value": "0", "metric": "auroc", "margin": 0.05}
    execution = new_execution(metrics=guards, slices=[part])
    for arm, seed in execution.records:
        labels = execution.record(arm, seed).examples.labels
        execution.change_examples(arm, seed, slices={"of_class": labels.astype(str)})
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.INCONCLUSIVE
    assert candidate.reasons[0].code is Code.SLICE_UNDEFINED


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"slices": [guard(metric="log_loss")]}, r"slices\[0\].metric is 'log_loss', allowed:"),
        ({"slices": [guard(margin=None)]}, "margin is missing"),
        ({"slices": [guard(watched=True)]}, "watched is true but a margin is given"),
        ({"metrics": {"accuracy": {"direction": "higher"}}}, "margin is missing"),
        ({"metrics": {"accuracy": {"direction": "higher", "watched": True}}}, "all watched"),
        (
            {"metrics": {"acuracy": {"direction": "higher", "margin": 0.1}}},
            "metrics.acuracy is not a metric of the gate",
        ),
    ],
)
def test_settings_that_contradict_themselves_are_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        GateSettings.model_validate({"metrics": ACCURACY, **settings})
