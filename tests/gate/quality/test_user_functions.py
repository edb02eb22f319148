"""Metrics that are a user's own functions of the per-example columns."""

from __future__ import annotations

import numpy as np
import pytest

from compilegate.gate.quality.comparison import ArmScores, arm_scores, compare_scores
from compilegate.gate.quality.metrics import (
    MetricFunctionError,
    MetricUndefinedError,
    load_function,
    metric_value,
    one_flip,
    per_example,
)
from compilegate.gate.reasons import Outcome
from compilegate.gate.settings import MetricGuard
from compilegate.job.evidence import Examples

FUNCTIONS = """
import numpy as np

SIZE = 3

def correct(examples):
    return examples.scores.argmax(axis=1) == examples.labels

def mean_correct(examples):
    return float(correct(examples).mean())

def mean_loss_ratio(examples):
    return examples.losses.mean() / (1.0 + examples.losses.std())

CALLS = []

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

def sorts_in_place(examples):
    examples.losses.sort()
    return examples.losses.mean()

def sometimes_one(examples):
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
    scores = np.column_stack([1.0 - likelihood, likelihood])
    scores[labels == 0] = scores[labels == 0][:, ::-1]
    return Examples(np.arange(count).astype(str), labels, scores, -np.log(likelihood))


def test_one_value_per_example_is_used_as_it_is(functions):
    column = per_example(f"{functions}.correct", sample())
    assert np.array_equal(column, per_example("accuracy", sample()))


def test_values_of_nought_and_one_have_the_resolution_of_a_flip(functions):
    for function, flip in (("correct", 1.0), ("mean_loss_ratio", 0.0)):
        column = per_example(f"{functions}.{function}", sample())
        assert one_flip(f"{functions}.{function}", sample(), column) == flip


def test_flips_are_counted_only_where_both_arms_have_nothing_else(functions, new_execution):
    """One value between nought and one in either arm, and the scores may have a tail."""
    guard = MetricGuard(direction="higher", margin=0.02, function=f"{functions}.correct")
    examples = new_execution().record("baseline", 1).examples
    flips = arm_scores(guard.function, [examples] * 2)
    values = ArmScores(flips.table * 0.9, rows=flips.rows)
    for before, after in ((flips, values), (values, flips)):
        slack = compare_scores("own", guard, before, after).slack
        assert slack.example_skewness != 0.0


def test_one_number_becomes_pseudo_values_whose_mean_is_the_number(functions):
    examples = sample()
    column = per_example(f"{functions}.mean_loss_ratio", examples)
    expected = examples.losses.mean() / (1.0 + examples.losses.std())
    assert column.shape == (100,)
    assert column.mean() == pytest.approx(expected)


@pytest.mark.slow
def test_the_jackknife_of_a_mean_has_the_spread_of_the_mean(functions):
    """Averaged over samples: from 100 groups one estimate is only good to 7 per cent."""
    by_groups, by_examples = [], []
    for seed in range(40):
        examples = sample(seed=seed)
        groups = per_example(f"{functions}.mean_correct", examples)
        rows = per_example("accuracy", examples)
        by_groups.append(groups.var(ddof=1) / len(groups))
        by_examples.append(rows.var(ddof=1) / len(rows))
    assert np.mean(by_groups) == pytest.approx(np.mean(by_examples), rel=0.05)


def test_few_examples_are_left_out_one_by_one(functions):
    assert per_example(f"{functions}.mean_correct", sample(30)).shape == (30,)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("raises", "metrics_of_a_user.raises raised KeyError: 'no such column'"),
        ("exits", "metrics_of_a_user.exits raised SystemExit: 0"),
        ("two_numbers", r"type float64 and shape \(2,\), allowed: one number, or one for each"),
        ("text", r"returned an array of type <U3 and shape \(\), allowed: one number"),
        ("not_a_number", "returned a number that is not finite"),
        ("sorts_in_place", "raised ValueError: .*read-only"),
        ("sometimes_one", "one number for all examples, and several for a part of them"),
        ("beyond", "not a finite number up to 1e"),
    ],
)
def test_a_function_that_fails_leaves_the_metric_undefined(functions, function, told):
    with pytest.raises(MetricUndefinedError, match=told):
        metric_value(f"{functions}.{function}", sample(30))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no_such_module.metric", "cannot be imported: ModuleNotFoundError"),
        ("metrics_of_a_user.no_such", "cannot be imported: AttributeError"),
        ("metrics_of_a_user.SIZE", "is int, not a function"),
    ],
)
def test_a_function_that_is_not_there_is_told_by_its_name(functions, name, told):
    with pytest.raises(MetricFunctionError, match=told):
        load_function(name)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["correct", "mean_correct"])
def test_a_user_s_metric_is_guarded_like_any_other(functions, new_execution, function):
    guard = {"direction": "higher", "margin": 0.02, "function": f"{functions}.{function}"}
    outcomes = [
        new_execution(metrics={"own": guard}, worse_by=worse_by).judge().candidates[0].outcome
        for worse_by in (0.0, 0.08)
    ]
    assert outcomes == [Outcome.PASS, Outcome.FAIL]


@pytest.mark.slow
def test_a_function_of_all_rows_is_called_as_often_as_the_jackknife_takes_and_no_more(
    functions, new_execution
):
    guard = {"direction": "higher", "margin": 0.02, "function": f"{functions}.counted"}
    execution = new_execution(metrics={"own": guard})
    calls = load_function(f"{functions}.counted").__globals__["CALLS"]
    execution.judge()
    assert len(calls) == (1 + 100) * len(execution.records)
