"""How fast the steps were, and what compilation cost. Pure."""

from __future__ import annotations

from typing import FrozenSet, List, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]
"""(steps,) wall-clock seconds of each."""

WARM_UP_STEPS = 5
"""Steps after the last early compilation that still fill caches and allocator pools."""


Shapes = Sequence[Sequence[int]]
"""By process, the shape of each of its steps: equal numbers, equal shapes. For steps of several
declared shapes, each of which is compiled once; a shape that nobody declared is none of these."""


def steady_starts(graphs: Sequence[Sequence[int]], shapes: Optional[Shapes] = None) -> List[int]:
    """For each process of a run, the index of its first steady step among all steps of the run.

    `graphs` tells, by process, how many graphs it had compiled by the end of each of its steps. A
    steady step lies `WARM_UP_STEPS` after the last step of the process's first half that compiled
    anything, and after every step that compiled a declared shape as it first occurred. A first step
    is never steady, eager or not: the optimizer allocates its state in it. Another compilation in
    the second half does not move the start: it is a recompilation, to be seen as such. A process
    that was interrupted early may have no steady step at all; its start is then its end. The last
    one is always left one.
    """
    starts, taken = [], 0
    for each, new in zip(graphs, _first_occurrences(graphs, shapes)):
        starts.append(taken + min(_steps_until_steady(each, new), len(each)))
        taken += len(each)
    starts[-1] = min(starts[-1], taken - 1)
    return starts


def recompilations(graphs: Sequence[Sequence[int]], shapes: Optional[Shapes] = None) -> int:
    """Graphs compiled after the first step of a process: its shapes and guards should have served
    them all. A declared shape that occurs for the first time may take as many as the first step."""
    return sum(sum(each) for each in _late_graphs(graphs, shapes))


def late_compilations(graphs: Sequence[int], shapes: Sequence[int]) -> List[int]:
    """The steps of one process in which `recompilations` counts any."""
    (late,) = _late_graphs([graphs], [shapes])
    return [step for step, count in enumerate(late) if count]


def samples_per_second(steady: Seconds, batch_size: int) -> float:
    """Training samples per second over the steady steps: all samples over all seconds.

    The total, not the median step: stalls and slow steps are paid for too. The gate computes the
    same from the step times.
    """
    return float(batch_size * len(steady) / steady.sum())


def compile_seconds(
    early: Seconds,
    steady: Seconds,
    shapes: Optional[Tuple[npt.ArrayLike, npt.ArrayLike]] = None,
) -> float:
    """Wall-clock seconds that compilation added: the early steps' excess over the steady median.

    This includes what loading the compiler costs, and leaves out what a step would take anyway.
    `shapes` are those of the early and of the steady steps, if they have several: a step takes what
    is usual for its shape.
    """
    usual = np.full(len(early), np.median(steady))
    if shapes is not None:
        before, after = map(np.asarray, shapes)
        for shape in np.intersect1d(before, after):
            usual[before == shape] = np.median(steady[after == shape])
    return float(max(early.sum() - usual.sum(), 0.0))


def _late_graphs(graphs: Sequence[Sequence[int]], shapes: Optional[Shapes]) -> List[List[int]]:
    """By process, for each step, how many graphs more than expected it compiled."""
    return [
        [
            0 if step == 0 else max(compiled - (max(each[0], 1) if step in new else 0), 0)
            for step, compiled in enumerate(np.diff(each, prepend=0).tolist())
        ]
        for each, new in zip(graphs, _first_occurrences(graphs, shapes))
    ]


def _first_occurrences(
    graphs: Sequence[Sequence[int]], shapes: Optional[Shapes]
) -> List[FrozenSet[int]]:
    """By process, the steps in which a shape occurs that did not before."""
    if shapes is None:
        return [frozenset({0}) for _ in graphs]
    return [frozenset({each.index(shape) for shape in set(each)}) for each in map(list, shapes)]


def _steps_until_steady(graphs: Sequence[int], new: FrozenSet[int]) -> int:
    late = [step for step in _compiling_steps(graphs) if step < len(graphs) / 2 or step in new]
    return max([0, *late]) + 1 + WARM_UP_STEPS


def _compiling_steps(graphs: Sequence[int]) -> List[int]:
    before = [0, *graphs[:-1]]
    return [step for step, (old, new) in enumerate(zip(before, graphs)) if new > old]
