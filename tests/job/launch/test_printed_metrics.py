"""What is caught in a script's output, and which printed speeds say how fast it trains."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.job.launch.supervisor import PrintedMetrics, printed_speed


@pytest.mark.parametrize(
    ("name", "percent", "line", "faulty"),
    [
        ("accuracy", "", b"v=0.95", False),
        ("accuracy", "", b"v=1.0000001", False),  # a rounding error
        ("bleu", "", b"v=27.4", False),
        ("accuracy", "accuracy", b"v=95.2", False),
        ("accuracy", "", b"v=nan", False),  # which the gate refuses with its own reason
        ("eval_f1", "", b"v=1.5", True),
        ("top-5/accuracy", "", b"v=80", True),
        ("auc", "auc", b"v=400", True),
    ],
)
def test_a_fraction_is_at_most_one(name: str, percent: str, line: bytes, faulty: bool) -> None:
    variables = {f"COMPILEGATE_PRINTED_{name}": r"v=(\S+)", "COMPILEGATE_PERCENT": percent}
    metrics = PrintedMetrics.declared(variables)
    assert metrics is not None
    metrics.read(line)
    assert (metrics.fault is not None) == faulty


def test_of_many_values_the_evidence_holds_some_with_the_first_and_the_last() -> None:
    metrics = PrintedMetrics({"speed": r"(\d+)"})
    for number in range(5000):
        metrics.read(b"%d" % number)
    recorded = metrics.recorded["speed"]
    assert (len(recorded), recorded[0], recorded[-1]) == (50, 0.0, 4999.0)
    assert list(recorded) == sorted(recorded)


@given(first=st.floats(0.1, 1000.0), later=st.lists(st.floats(0.95, 1.05), min_size=6, max_size=40))
def test_the_speed_is_what_all_intervals_but_the_first_come_to(
    first: float, later: list[float]
) -> None:
    values = [1 / each for each in (first, *later)]
    assert printed_speed(values) == pytest.approx(len(later) / sum(later))


@pytest.mark.parametrize(
    ("values", "speed"),
    [
        ([2.0, 3.0, 100.0, 100.0, 100.0, 100.0], 100.0),  # several of them compiled
        ([4.0, 5.0], 5.0),  # it may be an average, with compilation in it
        ([10.0, 0.0, 10.0], 0.0),  # for the gate to refuse
        ([10.0, math.nan, 10.0], math.nan),
    ],
)
def test_a_few_printed_speeds(values: list[float], speed: float) -> None:
    assert printed_speed(values) == pytest.approx(speed, nan_ok=True)
