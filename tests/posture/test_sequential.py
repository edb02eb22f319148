"""Statistics of executions that add up: held against scipy, their level against simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from benchmarks import posture as simulation
from benchmarks import results
from compilegate.posture.sequential import (
    FIRST_LOOK,
    always_valid,
    lower_bound,
    upper_quantile,
    upper_tail,
)
from compilegate.posture.state import Difference

LOOKS, ALPHA, TRIALS = 12, 0.04, 4000


def differences(values: Sequence[float], error: float = 0.0) -> list[Difference]:
    return [
        Difference(metric="m", difference=value, standard_error=error, margin=1.0)
        for value in values
    ]


@pytest.mark.parametrize("freedom", [1, 2, 5, 12, 60])
def test_student_is_scipys(freedom: int) -> None:
    for chance in (0.3, 0.05, 0.01, 1e-4, 1e-6):
        expected = stats.t.isf(chance, freedom)
        assert upper_quantile(chance, freedom) == pytest.approx(expected, rel=1e-6)
    for t in (-2.0, 0.0, 0.3, 7.0):
        assert upper_tail(t, freedom) == pytest.approx(stats.t.sf(t, freedom), rel=1e-6)


@pytest.mark.slow
def test_looking_after_every_execution_does_not_raise_the_error() -> None:
    """The bound of twelve looks lies above the truth at any of them as often as promised."""
    generator, crossed = np.random.default_rng(11), 0
    for _ in range(TRIALS):
        found = differences(generator.normal(size=LOOKS).tolist())
        crossed += any(
            lower_bound(found[:look], alpha=ALPHA, looks=LOOKS) > 0
            for look in range(FIRST_LOOK, LOOKS + 1)
        )
    assert crossed / TRIALS <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / TRIALS)


@pytest.mark.slow
def test_a_confidence_sequence_holds_at_all_times_at_once() -> None:
    generator, missed, years = np.random.default_rng(12), 0, 500
    for _ in range(years):
        found = differences(generator.normal(3.0, 2.0, size=100).tolist())
        intervals = (always_valid(found[:look], alpha=0.05) for look in range(2, 101))
        missed += any(not lower <= 3.0 <= upper for lower, upper in intervals)
    assert missed / years <= 0.05


def test_stated_errors_are_a_floor_and_too_few_or_too_many_looks_decide_nothing() -> None:
    alike = [0.1, 0.1, 0.1, 0.1]
    assert always_valid(differences(alike), alpha=0.4)[1] == pytest.approx(0.1)
    assert always_valid(differences(alike, 0.5), alpha=0.4)[1] > 0.2
    assert lower_bound(differences([1.0, 1.0]), alpha=0.05, looks=12) == -math.inf
    assert lower_bound(differences([1.0] * 13, 0.1), alpha=0.05, looks=12) == -math.inf
    assert always_valid(differences([1.0, 2.0]), alpha=0.05) == (-math.inf, math.inf)


@pytest.mark.slow
def test_the_published_table_is_the_simulations_and_keeps_the_promise() -> None:
    """Below 10% of good candidates are lost, and at most 2% of wrong ones promoted."""
    published = results.read("posture").rows
    assert len(published) == 15
    for row in published:
        lost, wrong = (float(cell.split("%")[0]) for cell in row[3:5])
        assert (lost < 10, wrong <= 2) == (True, True), row
    assert simulation.row(simulation.CELLS[0], 0) == published[0]
