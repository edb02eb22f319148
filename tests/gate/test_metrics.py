"""The metrics as per-example columns, a user's own functions among them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from compilegate.gate.evidence import take_rows
from compilegate.gate.findings import Outcome
from compilegate.gate.metrics import (
    MetricFunctionError,
    MetricUndefinedError,
    Scored,
    bias_bound,
    constant_value,
    load_function,
    metric_value,
    one_flip,
    per_example,
)
from compilegate.job.evidence import Examples
from tests.gate.conftest import build_execution, classified, scores_of, unclassified

LABELS = np.array([0, 0, 0, 0, 1, 1, 2, 2])
PREDICTIONS = np.array([0, 0, 0, 1, 1, 0, 2, 2])


CLASSIFIED = classified(LABELS, scores_of(PREDICTIONS, 3, 0.9))
NUMBERS = unclassified(
    np.ones(3), targets=np.array([1.5, 2.0, 1.0]), predictions=np.array([1.0, 2.0, 4.0])
)


def binary(labels: np.ndarray, scores: np.ndarray) -> Examples:
    return classified(labels, np.column_stack([1.0 - scores, scores]))


def test_the_metrics_of_a_small_table_are_those_worked_out_by_hand() -> None:
    examples = CLASSIFIED
    calibrated = binary(  # five of 0.72, three right; five of 0.95, all right
        np.array([1, 1, 1, 0, 0, 1, 1, 1, 1, 1]), np.array([0.72] * 5 + [0.95] * 5)
    )
    tied = classified(np.array([0, 1, 1]), np.full((3, 2), 0.5))
    log_loss = (6 * -np.log(0.9) + 2 * -np.log(0.05)) / 8
    for metric, found, value in (
        ("accuracy", examples, 6 / 8),
        ("balanced_accuracy", examples, (3 / 4 + 1 / 2 + 1) / 3),
        ("macro_f1", examples, (6 / 8 + 2 / 4 + 1) / 3),
        ("log_loss", examples, log_loss),
        ("perplexity", examples, np.exp(log_loss)),
        ("micro_f1", examples, 6 / 8),
        ("accuracy", tied, 1 / 3),  # of equal scores, the first class is the predicted one
        ("calibration_error", calibrated, 0.5 * abs(0.6 - 0.72) + 0.5 * abs(1.0 - 0.95)),
        ("mse", NUMBERS, (0.25 + 0.0 + 9.0) / 3),
        ("mae", NUMBERS, (0.5 + 0.0 + 3.0) / 3),
    ):
        assert metric_value(metric, found) == pytest.approx(value), metric


@pytest.mark.slow
@pytest.mark.parametrize(
    "metric",
    ["balanced_accuracy", "macro_f1", "log_loss", "auroc", "perplexity", "calibration_error"],
)
def test_the_column_s_spread_is_the_metric_s_sampling_variance(metric) -> None:
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


def flip_of(metric: str, examples: Examples) -> float:
    return one_flip(metric, examples.labels, per_example(metric, examples))


def test_one_flip_is_what_a_changed_prediction_does_to_the_metric() -> None:
    examples = CLASSIFIED
    assert flip_of("accuracy", examples) == 1.0
    moved = [1 / (4 * 3), 1 / (2 * 3), 1 / (2 * 3)]  # one flip in each class moves its recall
    expected = np.sqrt(np.sum(np.square(moved)))
    assert flip_of("balanced_accuracy", examples) / len(LABELS) == pytest.approx(expected)
    assert flip_of("log_loss", examples) == 0.0


@pytest.mark.slow
@given(ranks=arrays(np.int64, 30, elements=st.integers(1, 15)), power=st.floats(0.2, 5.0))
def test_auroc_is_the_share_of_pairs_that_are_ranked_right(ranks, power) -> None:
    """Ties count half, and only the order of scores counts."""
    labels, scores = np.arange(30) % 2, ranks / 16.0
    positive, negative = scores[labels == 1][:, None], scores[labels == 0][None, :]
    pairs = np.mean((positive > negative) + 0.5 * (positive == negative))
    for each in (scores, scores**power):
        assert metric_value("auroc", binary(labels, each)) == pytest.approx(pairs)


def test_a_constant_answer_reaches_what_is_known_of_it() -> None:
    labels = np.repeat([0, 1], [30, 10])
    examples = binary(labels, np.linspace(0.1, 0.9, 40))
    found = {each: constant_value(each, examples) for each in ("accuracy", "auroc", "log_loss")}
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert found == pytest.approx({"accuracy": 0.75, "auroc": 0.5, "log_loss": entropy})
    assert constant_value("calibration_error", examples) is None
    assert constant_value("mse", examples) is None  # there are no numbers to predict


def test_auroc_of_several_classes_is_the_mean_of_each_against_the_rest() -> None:
    generator = np.random.default_rng(3)
    labels, scores = generator.integers(0, 3, 60), generator.dirichlet([1.0, 1.0, 1.0], 60)
    areas = [
        np.mean(scores[labels == it, it][:, None] > scores[labels != it, it][None, :])
        for it in range(3)
    ]
    assert metric_value("auroc", classified(labels, scores)) == pytest.approx(np.mean(areas))


@pytest.mark.parametrize(
    ("metric", "examples"),
    [
        ("auroc", binary(np.ones(6, dtype=np.int64), np.linspace(0.1, 0.9, 6))),
        ("perplexity", unclassified(np.full(2, 1e5))),
        *((metric, NUMBERS) for metric in ("accuracy", "auroc", "calibration_error")),
        ("mse", CLASSIFIED),
    ],
)
def test_what_examples_do_not_determine_is_undefined(metric, examples) -> None:
    with pytest.raises(MetricUndefinedError):
        metric_value(metric, examples)


@pytest.mark.parametrize("shortfall", [0.0, 0.03])
def test_the_calibration_error_of_few_rows_is_too_high_by_no_more_than_its_bound(shortfall) -> None:
    generator = np.random.default_rng(8)

    def calibrated(count: int) -> Examples:
        """Right as often as confident, or less often by the shortfall."""
        confidence = generator.uniform(0.5, 1.0, count)
        labels = (generator.random(count) < confidence - shortfall).astype(np.int64)
        return binary(labels, confidence)

    drawn = [calibrated(300) for _ in range(300)]
    excess = np.mean([metric_value("calibration_error", one) for one in drawn]) - shortfall
    bound = np.mean([bias_bound("calibration_error", Scored(one)) for one in drawn])
    assert 0.0 < excess <= 1.03 * bound
    many = bias_bound("calibration_error", Scored(calibrated(30_000)))
    assert many == pytest.approx(bound / 10.0, rel=0.1)
    assert bias_bound("accuracy", Scored(drawn[0])) == 0.0


def test_losses_that_lost_their_digits_are_those_of_the_job_where_scores_allow() -> None:
    """And never less than such a score allows."""
    scores = np.array([[1.0 - 1e-7, 1e-7], [1.0 - 1e-7, 1e-7], [0.5, 0.5]])
    labels = np.array([1, 1, 0])
    examples = classified(labels, scores, losses=np.array([20.0, 0.0, 9.0]))
    lost = -np.log(1e-7 + 2e-7)
    assert per_example("log_loss", examples) == pytest.approx([20.0, lost, np.log(2.0)])


# A user's own functions.

FUNCTIONS = """
import numpy as np
SIZE = 3
CALLS = []
def correct(examples):
    return examples.scores.argmax(axis=1) == examples.labels
def mean_correct(examples):
    return float(correct(examples).mean())
def mean_loss_ratio(examples):
    return examples.losses.mean() / (1.0 + examples.losses.std())
def counted(examples):
    CALLS.append(len(examples.labels))
    return mean_correct(examples)
def raises(examples):
    raise KeyError("no such column")
def two_numbers(examples):
    return np.ones(2)
def not_a_number(examples):
    return float("nan")
def text(examples):
    return "0.9"
def exits(examples):
    raise SystemExit(0)
def sorts(examples):
    examples.losses.sort()
    return examples.losses.mean()
def sometimes(examples):
    return 1.0 if len(examples.labels) == 30 else np.ones(len(examples.labels))
def beyond(examples):
    return 1e200
"""


@pytest.fixture
def functions(tmp_path, monkeypatch) -> str:
    """The name of an importable module with the functions above."""
    (tmp_path / "metrics_of_a_user.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    return "metrics_of_a_user"


def sample(count: int = 1000, seed: int = 5) -> Examples:
    generator = np.random.default_rng(seed)
    labels = np.sort(generator.integers(0, 2, count))  # in the order of their classes
    likelihood = generator.beta(4.0, 1.0, count).clip(0.01, 0.99)
    return binary(labels, np.where(labels == 1, likelihood, 1.0 - likelihood))


def test_values_and_numbers_become_columns_whose_mean_is_the_metric(functions) -> None:
    examples = sample()
    accuracy = per_example("accuracy", examples)
    assert np.array_equal(per_example(f"{functions}.correct", examples), accuracy)
    column = per_example(f"{functions}.mean_loss_ratio", examples)
    expected = examples.losses.mean() / (1.0 + examples.losses.std())
    assert (column.shape, column.mean()) == ((100,), pytest.approx(expected))
    assert per_example(f"{functions}.mean_correct", sample(30)).shape == (30,)
    flips = [flip_of(f"{functions}.{it}", examples) for it in ("correct", "mean_loss_ratio")]
    assert flips == [1.0, 0.0]


@pytest.mark.slow
def test_the_jackknife_of_a_mean_has_the_spread_of_the_mean(functions) -> None:
    """Averaged over samples: from 100 groups one estimate is only good to 7 per cent."""
    drawn = [sample(seed=seed) for seed in range(40)]
    groups = [per_example(f"{functions}.mean_correct", it) for it in drawn]
    rows = [per_example("accuracy", it) for it in drawn]
    by_groups, by_rows = (
        np.mean([it.var(ddof=1) / len(it) for it in each]) for each in (groups, rows)
    )
    assert by_groups == pytest.approx(by_rows, rel=0.05)


@pytest.mark.parametrize(
    "function",
    ["raises", "exits", "two_numbers", "text", "not_a_number", "beyond", "sorts", "sometimes"],
)
def test_a_function_that_fails_leaves_the_metric_undefined(functions, function) -> None:
    with pytest.raises(MetricUndefinedError, match=f"{functions}.{function} "):
        metric_value(f"{functions}.{function}", sample(30))


@pytest.mark.parametrize("name", ["no_such_module.metric", "{}.no_such", "{}.SIZE"])
def test_a_function_that_is_not_there_is_told_by_its_name(functions, name) -> None:
    with pytest.raises(MetricFunctionError, match=name.format(functions)):
        load_function(name.format(functions))


@pytest.mark.slow
@pytest.mark.parametrize(("worse_by", "outcome"), [(0.0, Outcome.PASS), (0.08, Outcome.FAIL)])
def test_a_user_s_metric_is_guarded_like_any_other_and_called_no_more_than_is_needed(
    functions, worse_by, outcome
) -> None:
    guard = {"direction": "higher", "margin": 0.02, "function": f"{functions}.counted"}
    calls = load_function(f"{functions}.counted").__globals__["CALLS"]
    calls.clear()
    execution = build_execution(metrics={"own": guard}, worse_by=worse_by)
    assert execution.judge().candidates[0].outcome is outcome
    # As often as the jackknife takes; of the model to release, twice where it is worse.
    jackknives = len(execution.records) + (2 if worse_by else 0)
    assert len(calls) == (1 + 100) * jackknives
