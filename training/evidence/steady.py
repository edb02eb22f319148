"""Which steps a speed is measured on. The job and the gate must agree, so both ask here."""

from __future__ import annotations

from typing import Sequence

import numpy as np
import numpy.typing as npt

from training.evidence.record import Evidence, Resumption


def steady_steps(
    steps: int, steady_from: int, resumed: Sequence[Resumption]
) -> npt.NDArray[np.bool_]:
    """(steps,) whether each step is steady: neither the first process nor one that went on from a
    checkpoint was still compiling and warming up."""
    steady: npt.NDArray[np.bool_] = np.arange(steps) >= steady_from
    for each in resumed:
        steady[each.step : each.steady_from] = False
    return steady


def steady_steps_of(evidence: Evidence, steps: int) -> npt.NDArray[np.bool_]:
    """The same, of a job's evidence; all steps where it has no record of speed."""
    steady_from = 0 if evidence.speed is None else evidence.speed.steady_from
    return steady_steps(steps, steady_from, evidence.resumed)
