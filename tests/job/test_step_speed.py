"""What step times say about speed and about compilation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.job.evidence import Resumption, steady_steps
from compilegate.job.stepping import speed


def test_steady_steps_begin_after_settling_even_without_a_compiler() -> None:
    assert speed.steady_starts([[0] * 100]) == [6]


def test_steady_steps_begin_after_the_last_early_compilation() -> None:
    assert speed.steady_starts([[1, 1, 2, *[2] * 97]]) == [8]


def test_a_late_compilation_does_not_move_the_start() -> None:
    assert speed.steady_starts([[1] * 90 + [2] * 10]) == [6]


def test_graphs_after_the_first_step_are_recompilations() -> None:
    assert speed.recompilations([[0, 0, 0]]) == 0
    assert speed.recompilations([[2, 2, 2]]) == 0
    assert speed.recompilations([[1, 2, 4]]) == 3


def test_speed_is_all_samples_of_the_steady_steps_over_all_their_seconds() -> None:
    steady = np.array([0.1, 0.1, 0.1, 0.7])
    assert speed.samples_per_second(steady, batch_size=32) == pytest.approx(128)


def test_compile_seconds_are_the_early_steps_excess() -> None:
    early, steady = np.array([30.0, 0.6]), np.array([0.1] * 10)
    assert speed.compile_seconds(early, steady) == pytest.approx(30.4)


def test_a_steady_step_that_stalled_makes_no_compile_time_less() -> None:
    early, steady = np.array([30.0, 0.6]), np.array([*[0.1] * 9, 9.0])
    assert speed.compile_seconds(early, steady) == pytest.approx(30.4)


def test_fast_early_steps_are_no_negative_compile_time() -> None:
    assert speed.compile_seconds(np.array([0.05]), np.array([0.1, 0.1])) == 0


def test_each_process_of_a_resumed_run_warms_up_anew() -> None:
    compiled = [1] * 40
    assert speed.steady_starts([compiled, compiled, compiled]) == [6, 46, 86]


def test_a_process_that_was_interrupted_while_warming_up_has_no_steady_step() -> None:
    assert speed.steady_starts([[1] * 3, [1] * 40]) == [3, 9]


def test_compiling_again_in_another_process_is_no_recompilation() -> None:
    assert speed.recompilations([[1] * 3, [1] * 3]) == 0
    assert speed.recompilations([[1] * 3, [1, 1, 2]]) == 1


def test_a_declared_shape_may_be_compiled_wherever_it_first_occurs() -> None:
    graphs = [[1, 2, 2, *[2] * 56, 3, *[3] * 40]]
    shapes = [[64, 32, 64, *[32] * 56, 48, *[64] * 40]]
    assert speed.recompilations(graphs, shapes) == 0
    assert speed.steady_starts(graphs, shapes) == [59 + 6]


def test_a_declared_shape_may_be_compiled_once_and_take_as_many_graphs_as_the_first() -> None:
    shapes = [[64, 32, 64, 32, 32]]
    assert speed.recompilations([[2, 4, 4, 4, 4]], shapes) == 0
    assert speed.recompilations([[2, 5, 5, 5, 5]], shapes) == 1
    assert speed.recompilations([[1, 2, 3, 4, 4]], shapes) == 2
    assert speed.recompilations([[0, 1, 1, 1, 1]], shapes) == 0


def test_the_steps_of_recompilations_are_told() -> None:
    assert speed.late_compilations([2, 4, 4, 5, 5], [64, 32, 64, 64, 32]) == [3]
    assert speed.late_compilations([1, 2, 3], [64, 32, 48]) == []
    assert speed.late_compilations([0, 0], [64, 64]) == []


def test_each_process_of_a_resumed_run_compiles_its_shapes_anew() -> None:
    shapes = [[64, 32, 64], [32, 32, 64]]
    assert speed.recompilations([[1, 2, 2], [1, 1, 2]], shapes) == 0
    assert speed.recompilations([[1, 2, 2], [1, 2, 2]], shapes) == 1


def test_compile_seconds_count_what_is_usual_for_a_steps_shape() -> None:
    early, steady = np.array([10.0, 5.0]), np.array([0.1, 0.1, 0.1, 0.4])
    found = speed.compile_seconds(early, steady, ([64, 32], [32, 32, 32, 64]))
    assert found == pytest.approx(15 - 0.4 - 0.1)


COUNTS = st.lists(st.integers(min_value=0, max_value=3), min_size=1, max_size=60)


@pytest.mark.slow
@given(added=st.lists(COUNTS, min_size=1, max_size=4))
def test_a_run_of_any_length_keeps_a_steady_step(added: list[list[int]]) -> None:
    graphs = [np.cumsum(each).tolist() for each in added]
    bounds = np.cumsum([0, *map(len, graphs)]).tolist()
    starts = speed.steady_starts(graphs)
    assert all(a <= start <= b for a, start, b in zip(bounds, starts, bounds[1:], strict=False))
    resumed = [Resumption(a, start, 1.0) for a, start in zip(bounds[1:], starts[1:], strict=False)]
    seconds = np.full(bounds[-1], 0.25)
    steady = seconds[steady_steps(len(seconds), starts[0], resumed)]
    assert len(steady) >= 1
    assert speed.samples_per_second(steady, batch_size=8) == 32
    assert speed.compile_seconds(seconds[: starts[0]], steady) == 0
