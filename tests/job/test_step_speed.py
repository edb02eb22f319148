"""What step times say about speed and about compilation."""

from __future__ import annotations

import numpy as np
import pytest

from compilegate.job.script.step_times import compile_seconds, late_graphs, steady_starts

COLUMNS = [[64, 32, 64, *[32] * 56, 48, *[64] * 40]]


def one_shape(graphs: list[list[int]]) -> list[list[int]]:
    return [[0] * len(each) for each in graphs]


@pytest.mark.parametrize(
    ("graphs", "shapes", "starts"),
    [
        ([[0] * 100], None, [6]),  # settling, even without a compiler
        ([[1, 1, 2, *[2] * 97]], None, [8]),
        ([[1] * 90 + [2] * 10], None, [6]),  # a late one does not move the start
        ([[1] * 40] * 3, None, [6, 46, 86]),  # each process of a resumed run warms up anew
        ([[1] * 3, [1] * 40], None, [3, 9]),  # one that was interrupted while it did
        ([[1, 2, 2, *[2] * 56, 3, *[3] * 40]], COLUMNS, [59 + 6]),
    ],
)
def test_where_steps_are_steady(
    graphs: list[list[int]], shapes: list[list[int]] | None, starts: list[int]
) -> None:
    assert steady_starts(graphs, shapes or one_shape(graphs)) == starts


@pytest.mark.parametrize(
    ("graphs", "shapes", "late"),
    [
        ([[0, 0, 0]], None, [[0, 0, 0]]),
        ([[1, 2, 4]], None, [[0, 1, 2]]),
        ([[1] * 3, [1, 1, 2]], None, [[0] * 3, [0, 0, 1]]),
        # A declared shape may be compiled once, wherever it first occurs, and take as many graphs
        # as the first; each process compiles its shapes anew.
        ([[2, 4, 4, 5, 5]], [[64, 32, 64, 64, 32]], [[0, 0, 0, 1, 0]]),
        ([[2, 5, 5, 5, 5]], [[64, 32, 64, 32, 32]], [[0, 1, 0, 0, 0]]),
        ([[0, 1, 1, 1, 1]], [[64, 32, 64, 32, 32]], [[0] * 5]),
        ([[1, 2, 3]], [[64, 32, 48]], [[0] * 3]),
        ([[1, 2, 2], [1, 2, 2]], [[64, 32, 64], [32, 32, 64]], [[0] * 3, [0, 1, 0]]),
    ],
)
def test_which_graphs_came_too_late(
    graphs: list[list[int]], shapes: list[list[int]] | None, late: list[list[int]]
) -> None:
    assert late_graphs(graphs, shapes or one_shape(graphs)) == late


@pytest.mark.parametrize(
    ("early", "steady", "shapes", "seconds"),
    [
        ([30.0, 0.6], [0.1] * 10, None, 30.4),
        ([30.0, 0.6], [*[0.1] * 9, 9.0], None, 30.4),  # one that stalled makes it no less
        ([0.05], [0.1, 0.1], None, 0.0),
        ([10.0, 5.0], [0.1, 0.1, 0.1, 0.4], ([64, 32], [32, 32, 32, 64]), 15 - 0.4 - 0.1),
    ],
)
def test_compile_seconds_are_the_early_steps_excess(
    early: list[float],
    steady: list[float],
    shapes: tuple[list[int], list[int]] | None,
    seconds: float,
) -> None:
    shapes = shapes or ([0] * len(early), [0] * len(steady))
    assert compile_seconds(np.array(early), np.array(steady), shapes) == pytest.approx(seconds)
