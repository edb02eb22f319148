"""The mean of a (seeds x examples) table and how sure one can be of it; scalars; failures."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.findings import Outcome
from compilegate.gate.statistics import (
    CrossedMean,
    Differences,
    failed_seeds,
    highest_rate,
    holm,
    judge_failures,
    lowest_rate,
    mean_of_scalars,
    seeds_to_show,
    unseen_share,
)

NO_FLIP = 1e-12
"""Too small to show: the bound is then that of the crossed t, with no resolution."""


def crossed(table: np.ndarray, flip: float = 0.0, **more: float) -> CrossedMean:
    differences = Differences()
    for row in table:
        differences.add(row)
    return differences.mean(flip, **more)


def drawn(
    generator: np.random.Generator,
    seeds: int,
    examples: int,
    *,
    seed_sd: float,
    rest_sd: float = 0.3,
) -> np.ndarray:
    """One draw of the crossed model around zero."""
    return (
        generator.normal(0.0, seed_sd, (seeds, 1))
        + generator.normal(0.0, 0.3, (1, examples))
        + generator.normal(0.0, rest_sd, (seeds, examples))
    )


@given(
    seeds=st.integers(2, 6),
    examples=st.integers(2, 40),
    number=st.integers(0, 10**6),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_sums_over_seeds_give_what_the_whole_table_does(seeds, examples, number, scale) -> None:
    """By the textbook's two-way table, which is never kept."""
    table = scale * drawn(np.random.default_rng(number), seeds, examples, seed_sd=0.2)
    found = crossed(table, NO_FLIP * scale)
    rows, columns, mean = table.mean(axis=1), table.mean(axis=0), table.mean()
    residual = table - rows[:, None] - columns[None, :] + mean
    rest = (residual**2).sum() / ((seeds - 1) * (examples - 1))
    assert found.mean == pytest.approx(mean)
    assert found.rest_variance == pytest.approx(rest / (seeds * examples), rel=1e-6)
    assert found.seed_variance == pytest.approx(
        max(rows.var(ddof=1) / seeds, rest / seeds / examples), rel=1e-6
    )
    shown = max(columns.var(ddof=1) - rest / seeds, 0.0) / examples
    assert found.example_variance == pytest.approx(shown, rel=1e-6, abs=1e-9 * scale**2)


def test_with_one_part_of_the_variance_the_bound_is_the_paired_t_bound() -> None:
    draw = np.random.default_rng(13).normal(0.0, 1.0, (1, 200))
    values = 0.2 + np.hstack([draw, -draw])  # as long a tail on either side
    of_examples = crossed(values, NO_FLIP)
    quantile = scipy.stats.t.ppf(0.95, of_examples.example_freedom)
    assert of_examples.seed_variance is None
    assert of_examples.half_width(0.95) == pytest.approx(quantile * values.std(ddof=1) / 20.0)
    by_seed = np.array([0.010, 0.014, 0.003, 0.008])
    of_seeds = crossed(np.repeat(by_seed[:, None], 50, axis=1))
    expected = scipy.stats.t.ppf(0.9, 3) * by_seed.std(ddof=1) / 2.0
    assert of_seeds.half_width(0.9) == pytest.approx(expected)


def test_total_agreement_leaves_what_the_rule_of_three_leaves() -> None:
    analysed = crossed(np.zeros((3, 500)), flip=1.0)
    assert analysed.half_width(0.95) * 500 == pytest.approx(3.0, rel=0.05)
    assert unseen_share(500, 0.95) * 500 == pytest.approx(3.0, rel=0.01)


def test_a_table_of_one_number_has_no_spread_but_its_mean_decides() -> None:
    """Zero width decides by the margin; a rounding of the last bit is none."""
    for table in (np.full((3, 50), 0.1), 0.1 + 1e-17 * np.arange(150).reshape(3, 50)):
        analysed = crossed(table)
        assert (analysed.half_width(0.95), analysed.seed_sd) == (0.0, 0.0)
        assert analysed.mean == pytest.approx(0.1)


def test_long_tails_widen_the_bound_alike_on_both_sides() -> None:
    tail = np.random.default_rng(14).lognormal(0.0, 1.0, (1, 4000))
    analysed, mirrored = crossed(tail), crossed(-tail)
    plain = dataclasses.replace(crossed(tail, NO_FLIP), example_skewness=0.0)
    assert 1.05 < analysed.half_width(0.95) / plain.half_width(0.95) < 1.3
    assert mirrored.half_width(0.95) == pytest.approx(analysed.half_width(0.95))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 5])
@pytest.mark.parametrize("seed_sd", [0.0, 0.03, 0.1])
def test_what_sits_on_the_margin_passes_no_more_often_than_promised(seeds, seed_sd) -> None:
    """A mean of zero passes when its lower bound is above zero: 5 in 100 by construction."""
    generator = np.random.default_rng([seeds, int(1000 * seed_sd)])
    passed = 0
    for _ in range(4000):
        analysed = crossed(drawn(generator, seeds, 100, seed_sd=seed_sd))
        passed += analysed.mean - analysed.half_width(0.95) > 0.0
    assert passed / 4000 <= 0.06


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 5])
def test_the_promise_holds_for_correctness_too(seeds) -> None:
    """Differences of 0/1 correctness: rare flips either way, with seeds of differing quality."""
    generator = np.random.default_rng(seeds)
    passed = 0
    for _ in range(3000):
        flips = 0.03 + generator.normal(0.0, 0.008, (seeds, 1))
        worse = generator.random((seeds, 300)) < flips.clip(0.0, 1.0)
        better = generator.random((seeds, 300)) < 0.03
        analysed = crossed(better.astype(float) - worse, flip=1.0)
        passed += analysed.mean - analysed.half_width(0.95) > 0.0
    assert passed / 3000 <= 0.06


VARIANCES = st.floats(1e-8, 1.0)


@given(
    seeds=st.integers(2, 10), own=VARIANCES, rest=VARIANCES, rows=VARIANCES, growth=st.floats(1, 99)
)
def test_more_never_adds_to_either_variance(seeds, own, rest, rows, growth) -> None:
    difference = CrossedMean(
        mean=0.0,
        seeds=seeds,
        seed_variance=own + rest,
        examples=100,
        example_variance=rows,
        example_freedom=50.0,
        rest_variance=rest,
        bias=0.1,
    )
    more = difference.expected(seeds + 1, growth)
    assert more.rest_variance == pytest.approx(rest * seeds / (seeds + 1) / growth)
    assert more.bias == pytest.approx(0.1 / np.sqrt(growth))
    assert own * seeds / (seeds + 1) * (1 - 1e-9) <= more.seed_variance < own + rest
    assert more.example_variance <= rows
    assert more.half_width(0.95) >= more.bias
    same = dataclasses.asdict(difference.expected(seeds))
    assert same == pytest.approx(dataclasses.asdict(difference))


def test_designs_that_are_tried_at_once_have_the_half_widths_of_each() -> None:
    difference = crossed(drawn(np.random.default_rng(15), 3, 100, seed_sd=0.1), bias=0.03)
    designs = np.arange(2, 9), np.linspace(0.5, 3.0, 7)
    found = difference.expected(*designs).half_widths(0.95)
    one_by_one = [difference.expected(int(it), by) for it, by in zip(*designs, strict=True)]
    assert found == pytest.approx([it.half_width(0.95) for it in one_by_one])
    unbiased = dataclasses.replace(difference, bias=0.0)
    assert difference.half_width(0.95) == pytest.approx(unbiased.half_width(0.95) + 0.03)


# Scalars that have no examples behind them.


@pytest.mark.parametrize("by", [0.0, 0.1])
def test_equal_differences_of_scalars_take_the_arms_own_spread_unpaired(by) -> None:
    """Also where the last bit differs: 27.2 - 27.1 is not 0.1."""
    before = np.array([27.1, 27.3, 27.6])
    found = mean_of_scalars(before, before + by)
    welch = scipy.stats.ttest_ind(before + by, before, equal_var=False).confidence_interval(0.90)
    assert found.mean - found.half_width(0.95) == pytest.approx(welch.low)
    assert found.seed_sd == 0.0
    of_one_number = mean_of_scalars(np.full(3, 2.0), np.full(3, 2.0) + by)
    assert of_one_number.half_width(0.95) == 0.0


# Several candidates.


def holm_on_p_values(p_values: dict[str, float], alpha: float) -> set[str]:
    """Holm's procedure as his paper states it."""
    rejected: set[str] = set()
    for step, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        if p_values[name] > alpha / (len(p_values) - step):
            break
        rejected.add(name)
    return rejected


@given(p_values=st.dictionaries(st.sampled_from("abcdefgh"), st.floats(1e-6, 1.0), min_size=1))
def test_the_same_candidates_pass_as_by_holm_s_procedure_on_p_values(p_values) -> None:
    def passes(name: str, confidence: float) -> bool:
        return p_values[name] <= 1.0 - confidence

    levels = holm(list(p_values), 0.95, passes)
    passing = {name for name, level in levels.items() if passes(name, level)}
    assert passing == holm_on_p_values(p_values, 1.0 - 0.95)


# Failures.


@given(seeds=st.integers(1, 60), failed=st.integers(0, 60))
def test_the_rate_lies_between_its_bounds(seeds, failed) -> None:
    failed = min(failed, seeds)
    assert lowest_rate(seeds, failed, 0.95) <= failed / seeds <= highest_rate(seeds, failed, 0.95)
    exact = scipy.stats.binomtest(failed, seeds).proportion_ci(0.90)  # by Clopper and Pearson
    assert (exact.low, exact.high) == pytest.approx(
        (lowest_rate(seeds, failed, 0.95), highest_rate(seeds, failed, 0.95))
    )


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3])
def test_the_seeds_that_are_asked_for_are_the_fewest_that_show_it(rate) -> None:
    needed = seeds_to_show(rate, 0.95)
    assert highest_rate(needed, 0, 0.95) <= rate < highest_rate(needed - 1, 0, 0.95)


def test_a_rate_that_was_asked_for_decides() -> None:
    found = [judge_failures(*it, 0.1, 0.95) for it in ((29, 0), (3, 0), (5, 4))]
    assert [it.outcome for it in found] == [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL]
    assert found[1].numbers["seeds_needed"] == 29


def test_a_seed_fails_beyond_the_margin_and_what_chance_explains() -> None:
    assert failed_seeds([0.0, 0.035, 0.06], [0.90, 0.91, 0.92], 0.01) == [False, False, True]
