"""How fast the steps were, and what compilation cost. Pure."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np
import numpy.typing as npt

SETTLING_STEPS = 5
"""Steps after the last early compilation that still fill caches and allocator pools."""


def steady_from(graphs: Sequence[int]) -> int:
    """Index of the first steady step, given how many graphs were compiled by each step's end.

    It lies `SETTLING_STEPS` after the last step of the first half that compiled anything. Step 0
    is never steady, eager or not: the optimizer allocates its state in it. A compilation in the
    second half does not move the start: it is a recompilation, to be seen as such. At least one
    step is always left.
    """
    early = [step for step in _compiling_steps(graphs) if step < len(graphs) / 2]
    return min(max([0, *early]) + 1 + SETTLING_STEPS, len(graphs) - 1)


def recompilations(graphs: Sequence[int]) -> int:
    """Graphs compiled after the first step: its shapes and guards should have served them all."""
    return graphs[-1] - graphs[0]


def samples_per_second(seconds: npt.NDArray[np.float64], first: int, batch_size: int) -> float:
    """Training samples per second over the steps from `first` on: all samples over all seconds.

    The total, not the median step: stalls and slow steps are paid for too. The gate computes the
    same from the step times.
    """
    return float(batch_size * len(seconds[first:]) / seconds[first:].sum())


def compile_seconds(seconds: npt.NDArray[np.float64], first: int) -> float:
    """Wall-clock seconds that compilation added: the early steps' excess over the steady median.

    This includes what loading the compiler costs, and leaves out what a step would take anyway.
    """
    early = seconds[:first]
    return float(max(early.sum() - len(early) * np.median(seconds[first:]), 0.0))


def _compiling_steps(graphs: Sequence[int]) -> List[int]:
    before = [0, *graphs[:-1]]
    return [step for step, (old, new) in enumerate(zip(before, graphs)) if new > old]
