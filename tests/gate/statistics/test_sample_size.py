"""How many more seeds or examples would settle what is undecided."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.statistics.difference_interval import CrossedMean, crossed_mean, seeds_mean
from compilegate.gate.statistics.sample_size import SampleSize, rounded_up, sample_size_needed


def table(seeds: int, examples: int, *, seed_sd: float, shift: float, number: int = 1):
    """Differences whose mean is `shift` exactly, with a spread over examples of one."""
    draw = np.random.default_rng(number)
    rows = draw.normal(0.0, seed_sd, (seeds, 1)) + draw.normal(size=examples)
    rows = rows + draw.normal(0.0, 0.3, (seeds, examples))
    return rows - rows.mean() + shift


@pytest.mark.parametrize(
    ("seed_sd", "shift", "which"),
    [
        (0.0, 0.06, "examples"),
        (0.1, 0.1, "seeds"),
        (0.06, 0.09, "either"),
        (0.06, 0.05, "both"),
        (0.2, 0.03, "nothing"),
    ],
)
def test_what_dominates_the_spread_is_what_has_to_grow(seed_sd, shift, which):
    difference = crossed_mean(table(4, 400, seed_sd=seed_sd, shift=shift))
    assert difference.mean - difference.half_width(0.95) < 0.0
    found = sample_size_needed(difference, 400, 0.95)
    assert (found.seeds is not None) == (which in ("seeds", "either"))
    assert (found.examples is not None) == (which in ("examples", "either"))
    assert (found.both is not None) == (which == "both")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed_sd", "rest_sd", "shift", "what"),
    [(0.05, 0.3, 0.06, "seeds"), (0.0, 0.3, 0.04, "examples"), (0.05, 0.3, 0.05, "both")],
)
def test_eight_of_ten_experiments_of_that_size_are_decided(seed_sd, rest_sd, shift, what):
    """Where the truth is what was measured; the experiments are drawn here, not by the gate."""
    truth = CrossedMean(
        mean=shift,
        seeds=4,
        examples=100,
        seed_variance=(seed_sd**2 + rest_sd**2 / 100) / 4,
        example_variance=0.3**2 / 100,
        example_freedom=99.0,
        seed_sd=None,
        rest_variance=rest_sd**2 / 400,
    )
    found = sample_size_needed(truth, 100, 0.95)
    seeds, examples = {
        "seeds": (found.seeds, 100),
        "examples": (4, found.examples),
        "both": found.both,
    }[what]
    draw = np.random.default_rng(8)
    same_examples = draw.normal(0.0, 0.3, 100)
    same_examples *= 0.3 / same_examples.std(ddof=1)
    decided = 0
    for _ in range(400):
        own = draw.normal(0.0, 0.3, examples)
        if what == "seeds":
            own = same_examples - same_examples.mean()
        drawn = draw.normal(0.0, seed_sd, (seeds, 1)) + draw.normal(0.0, rest_sd, (seeds, examples))
        analysed = crossed_mean(shift + own + drawn, 1e-9, counted=True)
        decided += analysed.half_width(0.95) < abs(analysed.mean)
    assert decided / 400 == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("growth", [2, 5])
def test_what_is_expected_of_more_examples_is_what_more_examples_show(growth):
    """On average, and on the safe side: what spread between seeds there seems to be is kept."""
    expected, found = [], []
    for number in range(30):
        few = crossed_mean(table(3, 300, seed_sd=0.0, shift=0.1, number=number))
        many = crossed_mean(table(3, 300 * growth, seed_sd=0.0, shift=0.1, number=number + 99))
        expected.append(few.expected(3, growth).half_width(0.95))
        found.append(many.half_width(0.95))
    assert 1.0 < np.mean(expected) / np.mean(found) < 1.1


def test_a_reported_scalar_has_no_examples_to_add():
    difference = seeds_mean(np.array([0.00, 0.02, 0.04]))
    found = sample_size_needed(difference, 0, 0.95)
    assert found.examples is None
    draw = np.random.default_rng(9)
    analysed = [seeds_mean(draw.normal(0.02, 0.02, found.seeds)) for _ in range(2000)]
    decided = np.mean([abs(each.mean) > each.half_width(0.95) for each in analysed])
    assert decided == pytest.approx(0.8, abs=0.05)


def test_nothing_is_said_where_the_spread_is_not_known():
    one_seed = crossed_mean(table(1, 400, seed_sd=0.0, shift=0.0))
    same_everywhere = seeds_mean(np.array([0.01, 0.01]))
    assert (
        sample_size_needed(one_seed, 400, 0.95)
        == sample_size_needed(same_everywhere, 0, 0.95)
        == SampleSize()
    )


VARIANCES = st.floats(1e-8, 1.0)


@given(
    seeds=st.integers(2, 10),
    own=VARIANCES,
    rest=VARIANCES,
    examples=VARIANCES,
    growth=st.floats(1.0, 1e3),
)
def test_more_never_adds_to_either_variance_and_nothing_more_changes_nothing(
    seeds, own, rest, examples, growth
):
    difference = CrossedMean(
        mean=0.0,
        seeds=seeds,
        examples=100,
        seed_variance=own + rest,
        example_variance=examples,
        example_freedom=50.0,
        seed_sd=None,
        rest_variance=rest,
        bias=0.1,
    )
    more = difference.expected(seeds + 1, growth)
    fewer_of_both = seeds / (seeds + 1) / growth
    assert more.rest_variance == pytest.approx(rest * fewer_of_both)
    assert more.bias == pytest.approx(0.1 / np.sqrt(growth))
    assert more.seed_variance < difference.seed_variance
    assert more.seed_variance >= own * seeds / (seeds + 1) * (1 - 1e-9)
    assert more.example_variance <= difference.example_variance
    assert dataclasses.asdict(difference.expected(seeds)) == pytest.approx(
        dataclasses.asdict(difference)
    )


@given(st.floats(1, 1e7))
def test_an_estimate_is_rounded_up_to_two_digits(count):
    rounded = rounded_up(count)
    assert count <= rounded <= count * 1.1 + 1
    assert len(str(rounded).rstrip("0")) <= 2 or rounded < 100


def reason_of(verdict, code):
    return next(item for item in verdict.candidates[0].reasons if item.code is code)


def test_the_verdict_names_the_examples_and_what_running_on_them_costs(new_execution):
    strict = {"accuracy": {"direction": "higher", "margin": 0.009}}
    verdict = new_execution(metrics=strict, examples=400).judge()
    (candidate,) = verdict.candidates
    (metric,) = candidate.metrics
    assert candidate.outcome is Outcome.INCONCLUSIVE
    told = f"about {metric.examples_needed:,} validation examples instead of 400"
    assert told in reason_of(verdict, Code.QUALITY_UNDECIDED).sentence
    more = verdict.cost.candidates[0].more_examples
    assert more.examples == metric.examples_needed
    assert more.growth == pytest.approx(metric.examples_needed / 400)
    seconds = sum(3 * arm.job.seconds for arm in verdict.cost.arms)
    assert more.amount.seconds == pytest.approx(seconds)


def test_where_something_else_is_in_doubt_neither_seeds_nor_examples_are_promised(new_execution):
    small = {"column": "language", "value": "fr", "metric": "accuracy", "margin": 0.1}
    strict = {"accuracy": {"direction": "higher", "margin": 0.003}}
    execution = new_execution(metrics=strict, examples=400, slices=[small])
    for arm, seed in execution.records:
        languages = np.array(["de"] * 396 + ["fr"] * 4)
        execution.change_examples(arm, seed, slices={"language": languages})
    verdict = execution.judge()
    assert reason_of(verdict, Code.SLICE_TOO_SMALL)
    cost = verdict.cost.candidates[0]
    assert (cost.more_seeds, cost.more_examples) == (None, None)
