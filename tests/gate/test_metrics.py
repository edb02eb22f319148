"""The guarded metrics as per-example columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipelines.gate.metrics import metric_value, one_flip, per_example
from training.evidence import Examples


def examples_of(labels: np.ndarray, predictions: np.ndarray, classes: int) -> Examples:
    scores = np.full((len(labels), classes), 0.1 / classes)
    scores[np.arange(len(labels)), predictions] += 0.9
    ids = np.array([str(index) for index in range(len(labels))])
    return Examples(ids, labels, scores, -np.log(scores[np.arange(len(labels)), labels]))


LABELS = np.array([0, 0, 0, 0, 1, 1, 2, 2])
PREDICTIONS = np.array([0, 0, 0, 1, 1, 0, 2, 2])


def test_the_metrics_of_a_small_table_are_those_worked_out_by_hand():
    examples = examples_of(LABELS, PREDICTIONS, 3)
    assert metric_value("accuracy", examples) == pytest.approx(6 / 8)
    assert metric_value("balanced_accuracy", examples) == pytest.approx((3 / 4 + 1 / 2 + 1) / 3)
    assert metric_value("macro_f1", examples) == pytest.approx((6 / 8 + 2 / 4 + 1) / 3)
    expected = (6 * -np.log(0.9 + 0.1 / 3) + 2 * -np.log(0.1 / 3)) / 8
    assert metric_value("log_loss", examples) == pytest.approx(expected)


def test_classes_without_examples_do_not_count():
    with_spare_class = examples_of(LABELS, PREDICTIONS, 5)
    for metric in ("balanced_accuracy", "macro_f1"):
        three = metric_value(metric, examples_of(LABELS, PREDICTIONS, 3))
        assert metric_value(metric, with_spare_class) == pytest.approx(three)


indices = arrays(np.int64, 40, elements=st.integers(0, 4))


@given(labels=indices, predictions=indices)
def test_the_mean_of_the_column_is_the_metric_by_its_definition(labels, predictions):
    examples = examples_of(labels, predictions, 5)
    recalls, f1_scores = [], []
    for index in set(labels.tolist()):
        hits = np.sum((labels == index) & (predictions == index))
        recalls.append(hits / np.sum(labels == index))
        f1_scores.append(2 * hits / (np.sum(labels == index) + np.sum(predictions == index)))
    assert metric_value("balanced_accuracy", examples) == pytest.approx(np.mean(recalls))
    assert metric_value("macro_f1", examples) == pytest.approx(np.mean(f1_scores))


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "macro_f1", "log_loss"])
def test_the_column_s_spread_is_the_metric_s_sampling_variance(metric):
    """Against a bootstrap, which recomputes the metric from resampled examples."""
    generator = np.random.default_rng(21)
    labels = generator.choice(3, 900, p=[0.6, 0.3, 0.1])
    predictions = np.where(generator.random(900) < 0.9, labels, generator.integers(0, 3, 900))
    examples = examples_of(labels, predictions, 3)
    resampled = []
    for _ in range(1500):
        rows = generator.integers(0, 900, 900)
        drawn = Examples(
            examples.ids[rows], labels[rows], examples.scores[rows], examples.losses[rows]
        )
        resampled.append(metric_value(metric, drawn))
    predicted = per_example(metric, examples).std(ddof=1) / np.sqrt(900)
    assert predicted == pytest.approx(np.std(resampled), rel=0.08)


def test_one_flip_is_what_a_changed_prediction_does_to_the_metric():
    changed = PREDICTIONS.copy()
    changed[0] = 2
    before, after = (
        metric_value("accuracy", examples_of(LABELS, predictions, 3))
        for predictions in (PREDICTIONS, changed)
    )
    assert one_flip("accuracy", LABELS) / len(LABELS) == pytest.approx(before - after)
    moved = [1 / (4 * 3)] * 4 + [1 / (2 * 3)] * 4  # each example's flip moves its class's recall
    expected = np.sqrt(np.mean(np.square(moved)))
    assert one_flip("balanced_accuracy", LABELS) / len(LABELS) == pytest.approx(expected)
    assert one_flip("log_loss", LABELS) == 0.0
