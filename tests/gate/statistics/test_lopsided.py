"""Harm that lies to one side widens the bound on that side."""

from __future__ import annotations

import numpy as np
import pytest

from compilegate.gate.statistics.difference_interval import crossed_mean
from compilegate.gate.statistics.lopsided import harm_tail


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


@pytest.mark.parametrize(("seeds", "most"), [(3, 0.26), (5, 0.095), (10, 0.06)])
def test_log_normal_harm_with_a_long_tail_hardly_passes(seeds, most):
    """A t bound lets a third of them through. Of three seeds, one of five experiments shows none
    of it."""
    generator = np.random.default_rng(4)
    passes = 0
    for _ in range(400):
        noise = 0.1 * generator.standard_normal((2, seeds))
        by_seed = generator.lognormal(-1.125, 1.5, seeds) + noise[1] - noise[0]
        table = harms(by_seed, rows=4) + 0.01 * generator.standard_normal((seeds, 4))
        slack = crossed_mean(1.0 - table)
        tail = harm_tail(table, bounded=True, baseline=noise[0], margin=1.0)
        passes += slack.mean > slack.half_width(0.95) + tail.width(slack, 0.95)
    assert passes <= most * 400


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
