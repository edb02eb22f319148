"""Rows that are right or wrong together count as one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from compilegate.gate.quality.clusters import (
    Source,
    declared_units,
    neighbouring_units,
    repeated_units,
)
from compilegate.gate.quality.comparison import arm_scores, compare_scores
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import MetricGuard
from compilegate.job.evidence import Examples

GROUPS, EACH = 100, 10
ROWS = GROUPS * EACH


def outputs(seed: int, rows: int, *, digits: int | None = None) -> Examples:
    """What one model says of rows that no other row resembles."""
    second = np.random.default_rng(seed).uniform(0.05, 0.95, rows)
    if digits is not None:
        second = second.round(digits)
    scores = np.stack([1.0 - second, second], axis=1)
    labels = np.arange(rows) % 2
    ids = np.arange(rows).astype(np.str_)
    return Examples(ids, labels, scores, -np.log(scores[np.arange(rows), labels]))


def repeated(examples: Examples, order: np.ndarray) -> Examples:
    """Every row EACH times, in a new order."""
    rows = np.repeat(np.arange(len(examples.labels)), EACH)[order]
    return Examples(
        np.arange(len(rows)).astype(np.str_),
        examples.labels[rows],
        examples.scores[rows],
        examples.losses[rows],
    )


def test_rows_of_equal_outputs_in_all_models_are_one_unit_in_any_order():
    order = np.random.default_rng(1).permutation(ROWS)
    replicates = [repeated(outputs(seed, GROUPS), order) for seed in range(4)]
    units = repeated_units(replicates)
    assert units is not None
    assert units.count == GROUPS
    assert units.source is Source.REPEATED


def test_rows_that_one_model_tells_apart_are_no_repetitions():
    order = np.arange(ROWS)
    replicates = [repeated(outputs(seed, GROUPS), order) for seed in range(3)]
    assert repeated_units([*replicates, outputs(9, ROWS)]) is None


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_outputs_that_are_rounded_say_nothing_of_repetitions(digits):
    assert repeated_units([outputs(seed, ROWS, digits=digits) for seed in range(2)]) is None


def test_a_model_that_says_the_same_of_all_rows_says_nothing_of_repetitions():
    constant = repeated(outputs(0, 1), np.arange(EACH))
    assert repeated_units([constant, constant]) is None


def test_one_confidence_for_all_rows_of_a_class_says_nothing_of_repetitions():
    labels = np.arange(ROWS) % 10
    generator = np.random.default_rng(6)
    replicates = []
    for _ in range(3):
        predicted = np.where(generator.random(ROWS) < 0.95, labels, (labels + 1) % 10)
        scores = np.full((ROWS, 10), 0.07 / 9)
        scores[np.arange(ROWS), predicted] = 0.93
        losses = -np.log(scores[np.arange(ROWS), labels])
        replicates.append(Examples(np.arange(ROWS).astype(np.str_), labels, scores, losses))
    assert repeated_units(replicates) is None


def test_units_keep_the_mean_whatever_their_sizes():
    values = np.random.default_rng(2).random(50)
    examples = outputs(0, 50)
    sizes = np.array(["one"] * 30 + ["two"] * 5 + ["three"] * 15)
    units = declared_units(
        "site", Examples(*list(vars(examples).values())[:4], slices={"site": sizes})
    )
    assert units is not None
    assert units.columns(values).mean() == pytest.approx(values.mean())
    assert units.count == 3


def test_neighbours_that_resemble_each_other_are_found_and_independent_rows_are_not():
    generator = np.random.default_rng(3)
    together = np.repeat((generator.random(GROUPS) < 0.1).astype(float), EACH)
    labels = np.arange(ROWS) % 2
    found = neighbouring_units(together, labels)
    assert found is not None
    assert found.count <= 2 * GROUPS
    alone = sum(
        neighbouring_units((generator.random(ROWS) < 0.1).astype(float), labels) is not None
        for _ in range(200)
    )
    assert alone <= 2


def test_the_order_of_the_classes_is_no_likeness_of_neighbours():
    labels = np.repeat([0, 1, 2, 3], ROWS // 4)
    generator = np.random.default_rng(4)
    differences = (generator.random(ROWS) < labels * 0.1).astype(float)
    assert neighbouring_units(differences, labels) is None


def with_sites(execution, sites):
    for arm, seed in execution.records:
        execution.change_examples(arm, seed, slices={"site": sites})
    return execution


@pytest.mark.slow
def test_declared_groups_are_the_unit_and_the_verdict_says_how_many(new_execution):
    sites = np.array([f"site-{index % 50}" for index in range(2000)])
    candidate = with_sites(new_execution(groups="site"), sites).judge().candidates[0]
    by_rows = new_execution().judge().candidates[0]
    note = next(note for note in candidate.notes if note.code is Code.GROUPS_DECLARED)
    assert "2,000 validation examples count as 50" in note.sentence
    assert note.numbers["effective"] == 50
    assert candidate.metrics[0].delta.estimate == pytest.approx(by_rows.metrics[0].delta.estimate)


def test_groups_that_the_evidence_lacks_fail(new_execution):
    candidate = new_execution(groups="site").judge().candidates[0]
    assert candidate.outcome is Outcome.FAIL
    assert Code.GROUPS_MISSING in {reason.code for reason in candidate.reasons}


def test_one_group_for_all_rows_proves_nothing(new_execution):
    execution = with_sites(new_execution(groups="site"), np.array(["here"] * 2000))
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.INCONCLUSIVE
    assert Code.GROUPS_TOO_FEW in {reason.code for reason in candidate.reasons}


def test_rows_of_one_source_that_coarse_outputs_tell_apart_by_labels_count_as_one():
    """Half of each source has the other label: by answers there are twice as many units."""
    generator = np.random.default_rng(6)
    labels = np.arange(ROWS) % 2

    def arm(lost: np.ndarray) -> list[Examples]:
        made = []
        for _ in range(10):
            right = np.repeat((generator.random(GROUPS) < 0.95) & ~lost, EACH)
            scores = np.full((ROWS, 2), 0.1)
            scores[np.arange(ROWS), np.where(right, labels, 1 - labels)] = 0.9
            losses = -np.log(scores[np.arange(ROWS), labels])
            made.append(Examples(np.arange(ROWS).astype(np.str_), labels, scores, losses))
        return made

    before = arm(np.zeros(GROUPS, dtype=np.bool_))
    after = arm(generator.random(GROUPS) < 0.03)
    units = repeated_units([*before, *after])
    assert units is not None
    assert units.count == 2 * GROUPS
    guard = MetricGuard(direction="higher", margin=0.05)
    arms = [arm_scores("accuracy", each, None, units) for each in (before, after)]
    compared = compare_scores("accuracy", guard, *arms)
    assert compared.units is not None
    assert compared.units.source is Source.NEIGHBOURS
    assert compared.units.count == GROUPS
    harm, gain = compared.half_widths(0.95)
    assert harm > 1.1 * gain


def test_declared_groups_are_never_joined():
    examples = outputs(1, ROWS)
    pairs = np.repeat(np.arange(ROWS // 2), 2).astype(np.str_)
    declared = declared_units("pair", dataclasses.replace(examples, slices={"pair": pairs}))
    lost = np.repeat(np.arange(GROUPS) % 7 == 0, EACH)
    worse = np.where(lost, 1 - examples.labels, examples.labels)
    wrong = dataclasses.replace(examples, scores=np.eye(2)[worse])
    right = dataclasses.replace(examples, scores=np.eye(2)[examples.labels])
    arms = [arm_scores("accuracy", [each] * 2, None, declared) for each in (right, wrong)]
    guard = MetricGuard(direction="higher", margin=0.05)
    assert compare_scores("accuracy", guard, *arms).by_units is None
