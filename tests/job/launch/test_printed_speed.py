"""Which of the printed speeds say how fast a script trains, and what is said of the others."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.job.launch.scripts.printed_metrics import Silence
from compilegate.job.launch.scripts.printed_speed import (
    PrintedSpeed,
    printed_speed,
    steady_of_averages,
)

seconds = st.floats(0.1, 100.0)
jitter = st.lists(st.floats(0.95, 1.05), min_size=6, max_size=40)


def speed(values: list[float], *, compiled: bool = True) -> PrintedSpeed:
    found = printed_speed(values, Silence(), compiled=compiled)
    assert found is not None
    return found


def averages(delay: float, intervals: list[float]) -> list[float]:
    """The average speeds since the start, one example an interval, that a script would print."""
    ends = itertools.accumulate(intervals)
    return [number / (delay + end) for number, end in enumerate(ends, start=1)]


def test_nothing_printed_is_no_speed() -> None:
    assert printed_speed([], Silence(), compiled=True) is None


@pytest.mark.slow
@given(first=seconds, later=jitter)
def test_the_speed_is_what_all_intervals_but_the_first_come_to(
    first: float, later: list[float]
) -> None:
    """Stalls are paid for; the first interval is warm-up in every arm, compiled or not."""
    values = [1 / each for each in (first, *later)]
    expected = len(later) / sum(later)
    for compiled in (True, False):
        assert speed(values, compiled=compiled).value == pytest.approx(expected)


@pytest.mark.slow
@given(compiling=st.floats(5.0, 1000.0), later=jitter)
def test_a_first_interval_in_which_something_compiled_is_left_out_and_said(
    compiling: float, later: list[float]
) -> None:
    values = [1 / (compiling + 1), *(1 / each for each in later)]
    note = speed(values).note
    assert note is not None
    assert note.startswith(f"the first printed speed ({values[0]:.4g} samples per second) is left")
    assert speed(values, compiled=False).note is None


def test_several_intervals_in_which_something_compiled_are_left_out_together() -> None:
    found = speed([2.0, 3.0, 100.0, 100.0, 100.0, 100.0])
    assert found.value == pytest.approx(100.0)
    assert found.note is not None
    assert found.note.startswith(
        "the first 2 printed speeds (2, 3 samples per second) are left out"
    )


@given(delay=st.floats(3.0, 500.0), intervals=jitter)
def test_averages_since_the_start_are_told_from_intervals_and_so_is_where_they_creep(
    delay: float, intervals: list[float]
) -> None:
    values = averages(delay, intervals)
    steady = steady_of_averages(values)
    assert steady == pytest.approx(len(intervals) / sum(intervals), rel=0.15)
    found = speed(values)
    assert found.value == values[-1]
    assert found.note is not None
    assert found.average
    assert not speed(values, compiled=False).average
    assert "each printed speed is an average since the start" in found.note
    assert "print the speed of each interval" in found.note


@given(st.lists(st.floats(50.0, 150.0), min_size=5, max_size=60))
def test_intervals_at_a_speed_that_falls_are_no_averages(values: list[float]) -> None:
    assert steady_of_averages(sorted(values, reverse=True)) is None


@pytest.mark.parametrize("values", [[4.0], [4.0, 5.0]])
def test_an_average_of_the_whole_run_is_said_to_hold_the_time_to_compile(
    values: list[float],
) -> None:
    """A run whose compilation took nearly all of its time came out 0.04 times as fast."""
    found = speed(values)
    assert (found.value, found.average) == (values[-1], True)
    assert found.note is not None
    assert "an average of the whole run, so that the time to compile is in it" in found.note
    assert speed(values, compiled=False).note is None


def test_a_second_value_that_is_much_faster_needs_no_note() -> None:
    assert speed([3.0, 100.0]) == PrintedSpeed(100.0)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan])
def test_what_is_no_speed_stays_so_for_the_gate_to_refuse(wrong: float) -> None:
    found = speed([10.0, wrong, 10.0, 10.0]).value
    assert found == wrong or math.isnan(found)
