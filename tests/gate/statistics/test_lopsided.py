"""Harm that lies to one side widens the bound on that side."""

from __future__ import annotations

import numpy as np
import pytest

from compilegate.gate.statistics.difference_interval import crossed_mean
from compilegate.gate.statistics.lopsided import harm_tail, log_normal_bound


def harms(by_seed, rows: int = 400) -> np.ndarray:
    return np.tile(np.asarray(by_seed, float)[:, None], (1, rows))


def test_seeds_that_are_nearly_all_harmed_get_a_bound_for_any_shape():
    table = harms([0.1, 0.2, 0.15, 0.9, 0.3])
    tail = harm_tail(table, bounded=True)
    assert tail.any_shape
    assert tail.worst_seed == pytest.approx(0.9)
    assert tail.width(crossed_mean(-table), 0.95) > 0.9 * 0.45


def test_one_seed_of_many_that_diverges_gets_one_too():
    assert harm_tail(harms([0.0, -0.01] * 7 + [5.0]), bounded=True).any_shape


@pytest.mark.parametrize("by_seed", [[-0.1, -0.2, -0.15, -0.9, -0.3], [0.1, 0.2, 0.3], [0.0] * 9])
def test_gains_few_seeds_and_no_difference_at_all_are_not_lopsided(by_seed):
    assert not harm_tail(harms(by_seed), bounded=True).is_there


def test_one_baseline_for_all_seeds_says_nothing_of_sides():
    assert not harm_tail(harms([0.1, 0.2, 0.15, 0.9, 0.3]), bounded=True, paired=False).is_there


def test_a_pareto_tail_of_harm_is_continued_beyond_the_worst_example():
    generator = np.random.default_rng(1)
    table = np.tile((1.0 + generator.pareto(1.2, 2000)) / 6.0, (3, 1))
    tail = harm_tail(table, bounded=False)
    assert tail.beyond_worst_example > table.max()
    assert harm_tail(table, bounded=True).beyond_worst_example == 0.0


def test_equal_arms_are_lopsided_in_few_experiments():
    generator = np.random.default_rng(2)
    found = [harm_tail(generator.standard_normal((5, 400)), bounded=False) for _ in range(400)]
    assert sum(tail.any_shape for tail in found) <= 40
    assert sum(tail.beyond_worst_example > 0.0 for tail in found) <= 20


@pytest.mark.slow
def test_the_level_holds_where_harm_is_log_normal_over_ten_seeds():
    """A t bound lets a third of them through."""
    generator = np.random.default_rng(3)
    passes = {"gate": 0, "t": 0}
    for _ in range(200):
        by_seed = generator.lognormal(-0.5, 1.0, 10)  # a mean of one margin
        table = harms(by_seed, rows=4) + 0.01 * generator.standard_normal((10, 4))
        slack = crossed_mean(1.0 - table)
        half_width = slack.half_width(0.95)
        passes["t"] += slack.mean > half_width
        passes["gate"] += slack.mean > half_width + harm_tail(table, bounded=True).width(
            slack, 0.95
        )
    assert passes["gate"] <= 16
    assert passes["t"] >= 24


def passing_share(noise: float, harm, experiments: int) -> float:
    """Of experiments whose candidate has this harm per seed, in margins."""
    generator = np.random.default_rng(4)
    passes = 0
    for _ in range(experiments):
        expected = np.asarray(harm(generator), float)
        seeds = len(expected)
        before, after = noise * generator.standard_normal((2, seeds))
        table = harms(expected + after - before, rows=4)
        table += 0.003 * generator.standard_normal(table.shape)
        slack = crossed_mean(1.0 - table)
        tail = harm_tail(table, bounded=True, baseline=before, margin=1.0)
        passes += slack.mean > slack.half_width(0.95) + tail.width(slack, 0.95)
    return passes / experiments


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "noise", "most"), [(3, 0.02, 0.08), (3, 0.1, 0.22), (5, 0.1, 0.08), (10, 0.1, 0.04)]
)
def test_log_normal_harm_with_a_long_tail_hardly_passes(seeds, noise, most):
    """A t bound lets 37 of 100 through. Of three seeds, one of six experiments shows none of it
    where the baseline's seeds differ by a tenth of the margin."""
    share = passing_share(noise, lambda generator: generator.lognormal(-1.125, 1.5, seeds), 400)
    assert share <= most


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_equal_candidates_pass_as_before_but_for_one_of_twenty(seeds, noise):
    assert passing_share(noise, lambda _: np.zeros(seeds), 400) >= 0.92


def test_a_harm_that_all_seeds_have_alike_is_bounded_by_its_own_size():
    assert log_normal_bound([0.3] * 3, 0.95) == pytest.approx(0.3)
    assert log_normal_bound([0.20, 0.22, 0.25], 0.95) == pytest.approx(0.29, abs=0.005)


@pytest.mark.slow
def test_the_log_normal_bound_holds_in_95_of_100_samples_of_three():
    """Cox's method held in 91."""
    generator = np.random.default_rng(6)
    held = sum(
        log_normal_bound(generator.lognormal(-0.5, 1.0, 3), 0.95) >= 1.0 for _ in range(1000)
    )
    assert held >= 935


def test_seeds_that_lose_next_to_nothing_of_the_margin_are_not_blown_up():
    """Their logarithms spread over four units, and a log-normal bound of them was 10 for 0.0007."""
    by_seed = [0.0013, 0.0009, -0.0001]
    table = harms(by_seed)
    slack = crossed_mean(0.015 - table)
    tail = harm_tail(table, bounded=True, baseline=np.array([0.0, 0.0002, 0.0001]), margin=0.015)
    assert not tail.seeds
    assert slack.mean > slack.half_width(0.95) + tail.width(slack, 0.95)


def test_seeds_without_any_difference_have_no_log_normal_bound():
    assert not harm_tail(harms([0.0] * 5), bounded=True, baseline=np.zeros(5)).is_there
