"""Statistics of executions that add up: held against scipy, their level against simulation."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

from compilegate.posture.evidence.sequential import (
    FIRST_LOOK,
    always_valid,
    fixed_interval,
    lower_bound,
)
from compilegate.posture.evidence.student import upper_quantile, upper_tail

ROOT = Path(__file__).parents[2]
LOOKS, ALPHA, TRIALS = 12, 0.04, 4000


@pytest.mark.parametrize("freedom", [1, 2, 5, 11, 60])
@pytest.mark.parametrize("chance", [0.3, 0.05, 0.01, 1e-4])
def test_student_is_scipys(freedom: int, chance: float) -> None:
    assert upper_quantile(chance, freedom) == pytest.approx(stats.t.isf(chance, freedom), rel=1e-6)
    for t in (-2.0, 0.0, 0.3, 7.0):
        assert upper_tail(t, freedom) == pytest.approx(stats.t.sf(t, freedom), rel=1e-6)


@pytest.mark.slow
def test_looking_after_every_execution_does_not_raise_the_error() -> None:
    """The bound of twelve looks lies above the truth at any of them as often as promised."""
    generator, crossed = np.random.default_rng(11), 0
    for _ in range(TRIALS):
        values = generator.normal(size=LOOKS).tolist()
        crossed += any(
            lower_bound(values[:look], [0.0] * look, alpha=ALPHA, looks=LOOKS) > 0
            for look in range(FIRST_LOOK, LOOKS + 1)
        )
    assert crossed / TRIALS <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / TRIALS)


@pytest.mark.slow
def test_a_confidence_sequence_holds_at_all_times_at_once() -> None:
    generator, missed, years = np.random.default_rng(12), 0, 500
    for _ in range(years):
        values = generator.normal(3.0, 2.0, size=100).tolist()
        intervals = (always_valid(values[:look], alpha=0.05) for look in range(2, 101))
        missed += any(not found.lower <= 3.0 <= found.upper for found in intervals)
    assert missed / years <= 0.05


@pytest.mark.slow
def test_a_naive_bound_at_every_look_would_not_hold() -> None:
    generator, missed, years = np.random.default_rng(13), 0, 300
    for _ in range(years):
        values = generator.normal(size=50).tolist()
        intervals = (fixed_interval(values[:look], alpha=0.05) for look in range(3, 51))
        missed += any(not found.lower <= 0 <= found.upper for found in intervals)
    assert missed / years > 0.15


def test_the_error_that_executions_state_is_a_floor() -> None:
    alike = [0.1, 0.1, 0.1, 0.1]
    assert always_valid(alike, [0.0] * 4, alpha=0.4).upper == pytest.approx(0.1)
    assert always_valid(alike, [0.5] * 4, alpha=0.4).upper > 0.2


def test_too_little_says_nothing() -> None:
    assert lower_bound([1.0, 1.0], [0.0, 0.0], alpha=0.05, looks=12) == -math.inf
    assert lower_bound([1.0] * 13, [0.1] * 13, alpha=0.05, looks=12) == -math.inf
    assert math.isinf(always_valid([1.0, 2.0], alpha=0.05).lower)


@pytest.fixture(scope="module")
def calibration() -> ModuleType:
    path = ROOT / "benchmarks" / "posture" / "posture_calibration.py"
    spec = importlib.util.spec_from_file_location("posture_calibration", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["posture_calibration"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_false_promotions_over_a_year_are_rare_at_the_margin(calibration: ModuleType) -> None:
    generator, promoted, years = np.random.default_rng(5), 0, 200
    for _ in range(years):
        year = calibration.weeks(calibration.Design(0.5, 0.5), generator, [1.0] * 52)
        promoted += calibration.promoted_at("posture", year) < 52
    assert promoted / years <= 0.05


def test_the_published_page_keeps_the_promise() -> None:
    page = (ROOT / "docs" / "posture-calibration.md").read_text(encoding="utf-8")
    first = page.split("## ")[1]
    rows = [line.split("|") for line in first.splitlines() if " between runs" in line]
    assert len(rows) == 5
    assert all(float(row[2].split()[0]) <= 5.0 for row in rows)
