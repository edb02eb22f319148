"""How fast the steps were, and what compilation cost. Pure."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]
"""(steps,) wall-clock seconds of each."""

WARM_UP_STEPS = 5
"""Steps after the last early compilation that still fill caches and allocator pools."""


def steady_starts(graphs: Sequence[Sequence[int]]) -> List[int]:
    """For each process of a run, the index of its first steady step among all steps of the run.

    `graphs` tells, by process, how many graphs it had compiled by the end of each of its steps. A
    steady step lies `WARM_UP_STEPS` after the last step of the process's first half that compiled
    anything. A first step is never steady, eager or not: the optimizer allocates its state in it. A
    compilation in the second half does not move the start: it is a recompilation, to be seen as
    such. A process that was interrupted early may have no steady step at all; its start is then its
    end. The last one is always left one.
    """
    starts, taken = [], 0
    for each in graphs:
        starts.append(taken + min(_steps_until_steady(each), len(each)))
        taken += len(each)
    starts[-1] = min(starts[-1], taken - 1)
    return starts


def recompilations(graphs: Sequence[Sequence[int]]) -> int:
    """Graphs compiled after the first step of a process: its shapes and guards should have served
    them all."""
    return sum(each[-1] - each[0] for each in graphs if each)


def samples_per_second(steady: Seconds, batch_size: int) -> float:
    """Training samples per second over the steady steps: all samples over all seconds.

    The total, not the median step: stalls and slow steps are paid for too. The gate computes the
    same from the step times.
    """
    return float(batch_size * len(steady) / steady.sum())


def compile_seconds(early: Seconds, steady: Seconds) -> float:
    """Wall-clock seconds that compilation added: the early steps' excess over the steady median.

    This includes what loading the compiler costs, and leaves out what a step would take anyway.
    """
    return float(max(early.sum() - len(early) * np.median(steady), 0.0))


def _steps_until_steady(graphs: Sequence[int]) -> int:
    early = [step for step in _compiling_steps(graphs) if step < len(graphs) / 2]
    return max([0, *early]) + 1 + WARM_UP_STEPS


def _compiling_steps(graphs: Sequence[int]) -> List[int]:
    before = [0, *graphs[:-1]]
    return [step for step, (old, new) in enumerate(zip(before, graphs)) if new > old]
