"""How far may compiled arithmetic be from eager's? The rule, as plain arithmetic.

The job applies it with the default limits as soon as it has measured, to say at once what departs.
The gate applies it with the workload's own (`compilegate/gate/parity.py`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence.record import FloatArray, ParityErrors

EPSILON: Mapping[str, float] = MappingProxyType(
    {"fp32": 2.0**-23, "bf16": 2.0**-7, "fp16": 2.0**-10}
)
"""Distance from 1 to the next number of a precision. A tensor on which eager is nearer to float64
than that was lucky, and compiled code need not be."""
REPEAT_LIMIT = 2.0
"""Two eager runs may differ by this multiple of eager's error, as their errors differ."""
WEAKEST = 0.5
"""A tensor on which even an error of half its size would lie within the limit shows nothing."""


def explained_errors(errors: ParityErrors, precision: str) -> FloatArray:
    """(tensors,) the error that eager's own rounding explains: the largest of eager's errors on the
    tensor over the steps, or the precision's epsilon. `precision` is a key of `EPSILON`."""
    explained: FloatArray = np.maximum(errors.eager.max(axis=0), EPSILON[precision])
    return explained


def error_ratios(errors: ParityErrors, precision: str) -> FloatArray:
    """(steps, tensors) the compiled errors as multiples of what eager's own rounding explains."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratios: FloatArray = errors.compiled / explained_errors(errors, precision)
    return ratios


def lasting(ratios: FloatArray) -> FloatArray:
    """(tensors,) the ratio that a tensor reaches, or more, in more than half of the steps.

    Wrong code is wrong in every step. Rounding that decides on which side of a kink a number falls
    (ReLU, a maximum) changes single steps, by far more than itself.
    """
    middle: FloatArray = np.sort(ratios, axis=0)[(len(ratios) - 1) // 2]
    return middle


def repeats(errors: ParityErrors, precision: str) -> bool:
    """Whether eager is finite and repeats itself, so that something can be measured against it."""
    steady = errors.repeated / REPEAT_LIMIT <= explained_errors(errors, precision)
    return bool(np.isfinite(errors.eager).all() and steady.all())


def departing(errors: ParityErrors, precision: str, limit: float) -> npt.NDArray[np.bool_]:
    """(tensors,) which tensors the compiler computes wrongly: beyond the limit in most steps, where
    eager is exact enough to tell, or not finite where eager is."""
    if not repeats(errors, precision):
        return np.zeros(len(errors.tensors), dtype=bool)
    ratios = error_ratios(errors, precision)
    judged = explained_errors(errors, precision) <= WEAKEST / limit
    with np.errstate(invalid="ignore"):
        found: npt.NDArray[np.bool_] = ~np.isfinite(ratios).all(axis=0) | (
            judged & (lasting(ratios) > limit)
        )
    return found
