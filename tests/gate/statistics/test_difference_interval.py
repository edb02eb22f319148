"""The mean of a (seeds x examples) table, and how sure one can be of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.stats

from compilegate.gate.statistics.difference_interval import crossed_mean

NO_FLIP = 1e-12
"""Too small to show: the bound is then that of the crossed t, with no tail and no resolution."""


def table(
    generator: np.random.Generator,
    seeds: int,
    examples: int,
    *,
    seed_sd: float,
    example_sd: float = 0.3,
    rest_sd: float = 0.3,
) -> np.ndarray:
    """One draw of the crossed model around zero."""
    return (
        generator.normal(0.0, seed_sd, (seeds, 1))
        + generator.normal(0.0, example_sd, (1, examples))
        + generator.normal(0.0, rest_sd, (seeds, examples))
    )


@pytest.mark.slow
def test_the_estimated_variance_is_on_average_the_variance_of_the_mean():
    generator = np.random.default_rng(11)
    drawn = [table(generator, 4, 60, seed_sd=0.05) for _ in range(3000)]
    analysed = [crossed_mean(values, NO_FLIP, counted=True) for values in drawn]
    estimated = np.mean([item.seed_variance + item.example_variance for item in analysed])
    actual = np.var([values.mean() for values in drawn])
    assert estimated == pytest.approx(actual, rel=0.08)


@pytest.mark.slow
def test_the_two_parts_are_those_that_the_table_was_drawn_with():
    generator = np.random.default_rng(12)
    drawn = [table(generator, 5, 80, seed_sd=0.1) for _ in range(1500)]
    analysed = [crossed_mean(values, NO_FLIP, counted=True) for values in drawn]
    seed_part = 0.1**2 / 5 + 0.3**2 / (5 * 80)
    assert np.mean([item.seed_variance for item in analysed]) == pytest.approx(seed_part, rel=0.06)
    examples = np.mean([item.example_variance for item in analysed])
    assert examples == pytest.approx(0.3**2 / 80, rel=0.03)


def test_rows_that_lie_closer_together_than_their_noise_explains_count_the_noise():
    """By chance: nothing makes seeds more alike than draws of the same distribution."""
    generator = np.random.default_rng(18)
    noise = generator.normal(0.0, 1.0, (3, 200))
    alike = noise - noise.mean(axis=1, keepdims=True)
    analysed = crossed_mean(alike, NO_FLIP, counted=True)
    assert analysed.seed_sd == pytest.approx(0.0, abs=1e-12)
    assert analysed.seed_variance == pytest.approx(1.0 / 600, rel=0.15)


def test_with_one_seed_the_bound_is_the_paired_t_bound_over_examples():
    draw = np.random.default_rng(13).normal(0.0, 1.0, (1, 200))
    values = 0.2 + np.hstack([draw, -draw])  # as long a tail on either side
    analysed = crossed_mean(values, NO_FLIP, counted=True)
    quantile = scipy.stats.t.ppf(0.95, analysed.example_freedom)
    assert analysed.seed_variance is None
    assert analysed.half_width(0.95) == pytest.approx(quantile * values.std(ddof=1) / 20.0)
    assert analysed.example_freedom == pytest.approx(399, rel=0.25)


def test_long_tails_widen_the_bound_alike_on_both_sides():
    tail = np.random.default_rng(14).lognormal(0.0, 1.0, (1, 4000))
    analysed, mirrored = crossed_mean(tail), crossed_mean(-tail)
    plain = dataclasses.replace(crossed_mean(tail, NO_FLIP), example_skewness=0.0)
    assert 1.05 < analysed.half_width(0.95) / plain.half_width(0.95) < 1.3
    assert mirrored.half_width(0.95) == pytest.approx(analysed.half_width(0.95))


@pytest.mark.parametrize(("examples", "cost"), [(200, 1.05), (2000, 1.01)])
def test_scores_without_tails_pay_little_for_it(examples, cost):
    values = np.random.default_rng(16).normal(0.0, 1.0, (1, examples))
    plain = crossed_mean(values, NO_FLIP, counted=True).half_width(0.95)
    assert plain < crossed_mean(values).half_width(0.95) < cost * plain


def test_too_long_a_tail_takes_the_bound_that_holds_for_any_until_there_are_enough_examples():
    tail = np.random.default_rng(17).lognormal(0.0, 1.5, (2, 300))
    analysed = crossed_mean(np.vstack([tail.mean(axis=0)] * 2))
    assert analysed.is_too_skewed
    cantelli = np.sqrt(0.95 / 0.05) * np.sqrt(analysed.example_variance)
    assert analysed.half_width(0.95) == pytest.approx(cantelli)
    growth = 25.1 * analysed.example_skewness**2 / 300
    enough = analysed.expected(2, growth)
    assert not enough.is_too_skewed
    assert enough.half_width(0.95) < 0.6 * cantelli / np.sqrt(growth)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 1.5, 2.0])
def test_a_harm_with_a_long_tail_passes_no_more_often_than_promised(spread):
    """Few examples carry the harm, and a sample without them shows little harm and spread."""
    generator = np.random.default_rng(15)
    tail_mean = np.exp(spread**2 / 2.0)
    passed = 0
    for _ in range(2000):
        analysed = crossed_mean(tail_mean - generator.lognormal(0.0, spread, (1, 200)))
        passed += analysed.mean - analysed.half_width(0.95) > 0.0
    assert passed / 2000 <= 0.06


def test_where_examples_do_not_matter_the_bound_is_the_t_bound_over_seeds():
    by_seed = np.array([0.010, 0.014, 0.003, 0.008])
    analysed = crossed_mean(np.repeat(by_seed[:, None], 50, axis=1))
    expected = scipy.stats.t.ppf(0.9, 3) * by_seed.std(ddof=1) / 2.0
    assert analysed.half_width(0.9) == pytest.approx(expected)


def test_total_agreement_leaves_what_the_rule_of_three_leaves():
    analysed = crossed_mean(np.zeros((3, 500)), one_flip=1.0, counted=True)
    assert analysed.half_width(0.95) * 500 == pytest.approx(3.0, rel=0.05)


def test_a_variance_known_from_few_flips_has_few_degrees_of_freedom():
    flips = np.zeros((1, 1000))
    flips[0, :4] = 1.0
    assert crossed_mean(flips, NO_FLIP, counted=True).example_freedom == pytest.approx(
        8.0, rel=0.02
    )


def test_more_seeds_and_higher_confidence_move_the_bound_the_right_way():
    analysed = crossed_mean(table(np.random.default_rng(14), 3, 200, seed_sd=0.2))
    widths = [analysed.expected(seeds).half_width(0.95) for seeds in (2, 3, 5, 20)]
    assert widths == sorted(widths, reverse=True)
    assert analysed.expected(3).half_width(0.95) == pytest.approx(analysed.half_width(0.95))
    assert analysed.half_width(0.99) > analysed.half_width(0.95) > analysed.half_width(0.6)


def test_a_table_without_spread_to_see_is_refused():
    with pytest.raises(ValueError, match="3 seeds x 1 examples shows no spread"):
        crossed_mean(np.zeros((3, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("seed_sd", [0.0, 0.01, 0.03, 0.1])
def test_what_sits_on_the_margin_passes_no_more_often_than_promised(seeds, seed_sd):
    """A mean of zero passes when its lower bound is above zero: 5 in 100 by construction."""
    generator = np.random.default_rng([seeds, int(1000 * seed_sd)])
    passed = 0
    for _ in range(4000):
        analysed = crossed_mean(table(generator, seeds, 100, seed_sd=seed_sd))
        passed += analysed.mean - analysed.half_width(0.95) > 0.0
    assert passed / 4000 <= 0.06


@pytest.mark.parametrize("flips", [2, 3, 5, 10, 20])
def test_where_every_flip_is_a_harm_the_bound_is_no_nearer_than_poisson_s(flips):
    table = np.zeros((3, 1000))
    table[:, :flips] = -1.0
    analysed = crossed_mean(table, one_flip=1.0, counted=True)
    most = 1000 * (analysed.half_width(0.95) - analysed.mean)
    exact = scipy.stats.chi2.ppf(0.95, 2 * (flips + 1)) / 2.0
    assert 0.97 * exact < most < 1.35 * exact


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_promise_holds_for_correctness_too(seeds):
    """Differences of 0/1 correctness: rare flips either way, with seeds of differing quality."""
    generator = np.random.default_rng(seeds)
    passed = 0
    for _ in range(3000):
        flips = 0.03 + generator.normal(0.0, 0.008, (seeds, 1))
        worse = generator.random((seeds, 300)) < flips.clip(0.0, 1.0)
        better = generator.random((seeds, 300)) < 0.03
        analysed = crossed_mean(better.astype(float) - worse, one_flip=1.0, counted=True)
        passed += analysed.mean - analysed.half_width(0.95) > 0.0
    assert passed / 3000 <= 0.06
