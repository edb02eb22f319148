"""The guarded metrics as per-example columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from compilegate.evidence.rows import take_rows
from compilegate.gate.quality.comparison import ArmScores, compare_scores
from compilegate.gate.quality.metrics import (
    MetricUndefinedError,
    bias_bound,
    counts_flips,
    metric_value,
    one_flip,
    per_example,
)
from compilegate.gate.settings import MetricGuard
from compilegate.job.evidence import Examples


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


@pytest.mark.parametrize("classes", [2, 3])
def test_of_equal_scores_the_first_class_is_the_predicted_one(classes):
    scores = np.full((2, classes), 1.0 / classes)
    examples = Examples(np.array(["a", "b"]), np.array([0, 1]), scores, -np.log(scores[:, 0]))
    assert per_example("accuracy", examples).tolist() == [1.0, 0.0]


indices = arrays(np.int64, 40, elements=st.integers(0, 4))


@pytest.mark.slow
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


@pytest.mark.slow
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
        resampled.append(metric_value(metric, take_rows(examples, rows)))
    predicted = per_example(metric, examples).std(ddof=1) / np.sqrt(900)
    assert predicted == pytest.approx(np.std(resampled), rel=0.08)


def flip_of(metric, examples):
    return one_flip(metric, examples, per_example(metric, examples))


def test_one_flip_is_what_a_changed_prediction_does_to_the_metric():
    changed = PREDICTIONS.copy()
    changed[0] = 2
    before, after = (
        metric_value("accuracy", examples_of(LABELS, predictions, 3))
        for predictions in (PREDICTIONS, changed)
    )
    examples = examples_of(LABELS, PREDICTIONS, 3)
    assert flip_of("accuracy", examples) / len(LABELS) == pytest.approx(before - after)
    moved = [1 / (4 * 3), 1 / (2 * 3), 1 / (2 * 3)]  # one flip in each class moves its recall
    expected = np.sqrt(np.sum(np.square(moved)))
    assert flip_of("balanced_accuracy", examples) / len(LABELS) == pytest.approx(expected)
    assert flip_of("log_loss", examples) == 0.0


def test_flips_are_all_there_is_to_accuracy_but_not_to_auroc():
    examples = examples_of(LABELS, PREDICTIONS, 3)
    assert counts_flips("accuracy", flip_of("accuracy", examples))
    assert flip_of("auroc", examples) > 0.0
    assert not counts_flips("auroc", flip_of("auroc", examples))
    assert not counts_flips("log_loss", flip_of("log_loss", examples))


SCORES = np.array([0.1, 0.4, 0.35, 0.8, 0.4, 0.9])
OUTCOMES = np.array([0, 0, 1, 1, 1, 0])


def binary(labels: np.ndarray, scores: np.ndarray) -> Examples:
    columns = np.column_stack([1.0 - scores, scores])
    ids = np.array([str(index) for index in range(len(labels))])
    return Examples(ids, labels, columns, -np.log(columns[np.arange(len(labels)), labels]))


def test_auroc_is_the_share_of_pairs_that_are_ranked_right_with_ties_counted_half():
    pairs = [
        1.0 if positive > negative else 0.5 if positive == negative else 0.0
        for positive in SCORES[OUTCOMES == 1]
        for negative in SCORES[OUTCOMES == 0]
    ]
    assert metric_value("auroc", binary(OUTCOMES, SCORES)) == pytest.approx(np.mean(pairs))


def test_with_more_than_two_classes_auroc_is_the_mean_of_each_class_against_the_rest():
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 3, 60)
    scores = generator.dirichlet([1.0, 1.0, 1.0], 60)
    examples = Examples(np.arange(60).astype(str), labels, scores, np.zeros(60))
    areas = []
    for index in range(3):
        positive, negative = scores[labels == index, index], scores[labels != index, index]
        areas.append(np.mean(positive[:, None] > negative[None, :]))
    assert metric_value("auroc", examples) == pytest.approx(np.mean(areas))


@pytest.mark.slow
@given(scores=arrays(np.float64, 30, elements=st.floats(0.001, 0.999)), power=st.floats(0.2, 5.0))
def test_auroc_depends_on_the_order_of_the_scores_alone(scores, power):
    labels = np.arange(30) % 2
    ranks = np.unique(scores, return_inverse=True)[1]
    stretched = (1.0 + ranks) ** power / 31.0**power
    assert metric_value("auroc", binary(labels, scores)) == pytest.approx(
        metric_value("auroc", binary(labels, stretched))
    )


def test_auroc_of_a_single_class_is_undefined():
    with pytest.raises(MetricUndefinedError, match="two or more classes"):
        metric_value("auroc", binary(np.ones(6, dtype=np.int64), SCORES))


@pytest.mark.slow
@given(labels=indices, predictions=indices)
def test_micro_f1_is_accuracy_when_each_example_has_one_label(labels, predictions):
    examples = examples_of(labels, predictions, 5)
    assert np.array_equal(per_example("micro_f1", examples), per_example("accuracy", examples))


def test_perplexity_is_the_exponential_of_log_loss():
    examples = examples_of(LABELS, PREDICTIONS, 3)
    expected = np.exp(metric_value("log_loss", examples))
    assert metric_value("perplexity", examples) == pytest.approx(expected)


def test_a_perplexity_beyond_all_numbers_is_undefined():
    examples = Examples(
        ids=np.array(list("abcdef")),
        labels=np.zeros(6, dtype=np.int64),
        scores=np.empty((6, 0)),
        losses=np.full(6, 1e5),
    )
    with pytest.raises(MetricUndefinedError, match="not a finite number"):
        per_example("perplexity", examples)


def test_calibration_error_is_the_weighted_gap_of_its_bins():
    # Confidences 0.72 (five, three right) and 0.95 (five, all right), in two different bins.
    labels = np.array([1, 1, 1, 0, 0, 1, 1, 1, 1, 1])
    scores = np.array([0.72] * 5 + [0.95] * 5)
    expected = 0.5 * abs(0.6 - 0.72) + 0.5 * abs(1.0 - 0.95)
    assert metric_value("calibration_error", binary(labels, scores)) == pytest.approx(expected)


def regression(predictions: np.ndarray, targets: np.ndarray) -> Examples:
    count = len(targets)
    return Examples(
        ids=np.arange(count).astype(str),
        labels=np.zeros(count, dtype=np.int64),
        scores=np.empty((count, 0)),
        losses=(predictions - targets) ** 2,
        targets=targets,
        predictions=predictions,
    )


def test_squared_and_absolute_errors_are_those_of_the_predictions():
    examples = regression(np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 1.0]))
    assert metric_value("mse", examples) == pytest.approx((0.25 + 0.0 + 9.0) / 3)
    assert metric_value("mae", examples) == pytest.approx((0.5 + 0.0 + 3.0) / 3)


@pytest.mark.parametrize("metric", ["accuracy", "auroc", "calibration_error"])
def test_what_needs_scores_is_undefined_for_predicted_numbers(metric):
    with pytest.raises(MetricUndefinedError):
        per_example(metric, regression(np.ones(3), np.ones(3)))


@pytest.mark.parametrize("metric", ["auroc", "perplexity", "calibration_error"])
def test_a_linearised_column_s_spread_is_its_metric_s_sampling_variance(metric):
    """Against a bootstrap, with an overconfident model, as trained ones are."""
    generator = np.random.default_rng(22)
    truth = generator.uniform(0.02, 0.98, 1500)
    labels = (generator.random(1500) < truth).astype(np.int64)
    odds = 1.8 * np.log(truth / (1.0 - truth))
    examples = binary(labels, 1.0 / (1.0 + np.exp(-odds)))
    resampled = [
        metric_value(metric, take_rows(examples, generator.integers(0, 1500, 1500)))
        for _ in range(600)
    ]
    predicted = per_example(metric, examples).std(ddof=1) / np.sqrt(1500)
    assert predicted == pytest.approx(np.std(resampled), rel=0.12)


def calibrated(generator: np.random.Generator, count: int, shortfall: float = 0.0) -> Examples:
    """Right as often as confident, or less often by the shortfall."""
    confidence = generator.uniform(0.5, 1.0, count)
    labels = (generator.random(count) < confidence - shortfall).astype(np.int64)
    ids = np.array([str(index) for index in range(count)])
    return Examples(ids, labels, np.column_stack([1.0 - confidence, confidence]), np.zeros(count))


@pytest.mark.parametrize("shortfall", [0.0, 0.03])
def test_the_calibration_error_of_few_examples_is_too_high_by_no_more_than_its_bound(shortfall):
    generator = np.random.default_rng(8)
    drawn = [calibrated(generator, 300, shortfall) for _ in range(300)]
    excess = np.mean([metric_value("calibration_error", one) for one in drawn]) - shortfall
    bound = np.mean([bias_bound("calibration_error", one) for one in drawn])
    assert 0.0 < excess <= 1.03 * bound
    if shortfall == 0.0:
        assert excess == pytest.approx(bound, rel=0.1)


def test_the_larger_bias_of_two_arms_moves_both_bounds():
    """Whichever arm has it: the other may have none."""
    plain, biased = (ArmScores(np.zeros((2, 50)), 50, 1.0, True, bias) for bias in (0.0, 0.03))
    guard = MetricGuard(direction="lower", margin=0.05)
    widths = [
        compare_scores("calibration_error", guard, *arms).slack.half_width(0.95)
        for arms in ((plain, plain), (plain, biased), (biased, plain))
    ]
    assert widths[1:] == pytest.approx([widths[0] + 0.03] * 2)


def test_the_bias_shrinks_with_the_root_of_the_examples_and_other_metrics_have_none():
    generator = np.random.default_rng(9)
    few, many = (calibrated(generator, count) for count in (400, 40_000))
    ratio = bias_bound("calibration_error", few) / bias_bound("calibration_error", many)
    assert ratio == pytest.approx(10.0, rel=0.1)
    assert bias_bound("accuracy", few) == 0.0
