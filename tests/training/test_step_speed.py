"""What step times say about speed and about compilation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import speed


def test_steady_steps_begin_after_settling_even_without_a_compiler() -> None:
    assert speed.steady_from([0] * 100) == 6


def test_steady_steps_begin_after_the_last_early_compilation() -> None:
    assert speed.steady_from([1, 1, 2, *[2] * 97]) == 8


def test_a_late_compilation_does_not_move_the_start() -> None:
    assert speed.steady_from([1] * 90 + [2] * 10) == 6


def test_graphs_after_the_first_step_are_recompilations() -> None:
    assert speed.recompilations([0, 0, 0]) == 0
    assert speed.recompilations([2, 2, 2]) == 0
    assert speed.recompilations([1, 2, 4]) == 3


def test_speed_is_all_samples_of_the_steady_steps_over_all_their_seconds() -> None:
    seconds = np.array([30.0, 0.5, 0.1, 0.1, 0.1, 0.7])
    assert speed.samples_per_second(seconds, first=2, batch_size=32) == pytest.approx(128)


def test_compile_seconds_are_the_early_steps_excess() -> None:
    seconds = np.array([30.0, 0.6, *[0.1] * 10])
    assert speed.compile_seconds(seconds, first=2) == pytest.approx(30.4)


def test_fast_early_steps_are_no_negative_compile_time() -> None:
    assert speed.compile_seconds(np.array([0.05, 0.1, 0.1]), first=1) == 0


@given(added=st.lists(st.integers(min_value=0, max_value=3), min_size=1, max_size=60))
def test_a_run_of_any_length_keeps_a_steady_step(added: list[int]) -> None:
    graphs = np.cumsum(added).tolist()
    first = speed.steady_from(graphs)
    assert 0 <= first < len(graphs)
    seconds = np.full(len(graphs), 0.25)
    assert speed.samples_per_second(seconds, first, batch_size=8) == 32
    assert speed.compile_seconds(seconds, first) == 0
