"""The verdict of parity: is a compiled step the same arithmetic as an eager one? Pure.

No program is exact, so the question is whether the compiled step errs more against float64 than
eager's own rounding explains: a multiple of eager's error, tensor by tensor and step by step, holds
for models of any size and scale. docs/parity.md shows where the limits come from. The job judges
with the default limits, the gate with the workload's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence.record import FloatArray, ParityErrors, ParityRecord

DEFAULT_PARITY_LIMITS = {"fp32": 20.0, "bf16": 4.0, "fp16": 4.0}
"""By precision: how many times what eager's rounding explains a compiled tensor may err."""
_COARSER = ("fp32", "fp16", "bf16")


def coarsest(precisions: Iterable[str]) -> str:
    """The precision that rounds most; fp32 of none."""
    return max(precisions, key=_COARSER.index, default=_COARSER[0])


def trains_in(trained: str, *, autocast: bool) -> str:
    """How a training computes, to go on with."""
    return f"this script trains {f'under {trained} autocast' if autocast else f'in {trained}'}"


def otherwise_declared(trained: str, declared: str, arms: Sequence[str], *, autocast: bool) -> str:
    """That arms trained in another precision than the workload declares, with what to change."""
    if declared != _COARSER[0]:
        instead = "run its forward pass under job.autocast()"
    elif autocast:
        instead = "remove torch.autocast"
    else:
        instead = "keep its parameters and products in float32"
    tables = " and ".join(f"[arms.{arm}]" for arm in arms)
    return (
        f"{trains_in(trained, autocast=autocast)}; the workload declares {declared}: set precision "
        f'= "{trained}" in {tables}, or {instead}'
    )


EPSILON: Mapping[str, float] = {"fp32": 2.0**-23, "bf16": 2.0**-7, "fp16": 2.0**-10}
"""Distance from 1 to the next number. Where eager is nearer to float64 than that, it was lucky."""
REPEAT_LIMIT = 2.0
"""Two eager runs may differ by this multiple of eager's error, and by no more than `WEAKEST`."""
WEAKEST = 0.5
"""A tensor on which even an error of half its size would lie within the limit shows nothing."""
NEEDED_SHARE = 0.9  # the share of the tensors that must show something
LEAST_STEPS = 4  # half of fewer is a single one
FAR = 1e5  # times the precision's epsilon that eager does not reach by rounding, or all of a tensor
UNLIKE = 0.01  # the share of eager's error by which a compiled error differs that is not eager's


class ParityAnswer(str, Enum):
    PASS = "pass"  # noqa: S105 - an answer, no password
    FAIL = "fail"
    CANNOT_TELL = "cannot_tell"

    def __str__(self) -> str:
        return str(self.value)


class Why(str, Enum):
    """What the answer is based on."""

    ALIKE = "alike"
    NOT_FINITE = "not_finite"
    BEYOND = "beyond"  # the limit in most steps
    AT_TIMES = "at_times"
    """Beyond the limit in some steps: rounding near a kink, or code that is wrong at times."""
    EAGER_NOT_FINITE = "eager_not_finite"
    EAGER_VARIES = "eager_varies"
    TOO_COARSE = "too_coarse"
    NOT_MEASURED = "not_measured"  # errors of exactly zero, which no arithmetic but float64 has
    BEYOND_ROUNDING = "beyond_rounding"
    NOT_REPRODUCED = "not_reproduced"


CANNOT_TELL_SINCE: Mapping[Why, str] = {
    Why.EAGER_NOT_FINITE: "eager produced NaN or Inf in the probe although training did not: the "
    "probe replayed something else",
    Why.EAGER_VARIES: "two eager runs of the same step differ by more than rounding; the model may "
    "draw random numbers that are not torch's",
    Why.TOO_COARSE: "eager itself is too far from float64 in most tensors, as with dropout or a "
    "model that amplifies rounding",
    Why.NOT_MEASURED: "all errors of eager or of the compiled step are zero: nothing was compared",
    Why.BEYOND_ROUNDING: "eager and compiled are far from float64, each in its own way: they did "
    "not draw the same random numbers",
    Why.NOT_REPRODUCED: "compiled tensors differ by more than rounding, and the captured graph, "
    "compiled by itself in a fresh process, does not",
}
"""Why parity cannot tell, in words, where no tensor shows it."""
COVERED = 0.9  # the share of the trained parameters that must have been compared
GRADIENT = "gradient of"


@dataclass(frozen=True)
class WorstTensor:
    """Where the compiled arithmetic is farthest from what eager's rounding explains."""

    tensor: str
    step: int  # from 0, in the order of training
    ratio: float | None  # the compiled error over what eager explains; None: not finite
    compiled_error: float | None  # relative to the tensor's norm in float64; None: not finite
    eager_error: float  # in the same step


@dataclass(frozen=True)
class ParityVerdict:
    answer: ParityAnswer
    why: Why
    worst: WorstTensor | None
    judged: int  # tensors on which eager is close enough to float64 to show something
    median_ratio: float | None
    exceeded: int  # steps in which a tensor is beyond the limit


def parity_verdict(
    errors: ParityErrors, precision: str, limit: float, reproduced: bool | None = None
) -> ParityVerdict:
    """Judge the errors of one job, at least one step and one tensor. `limit` is how many times
    eager's rounding may be exceeded, `reproduced` as in `ParityRecord`."""
    ratios, explained = error_ratios(errors, precision), explained_errors(errors, precision)
    judged = explained <= WEAKEST / limit
    shown = np.where(judged, ratios, 0.0)
    middle = lasting(shown)
    repeated = np.minimum(REPEAT_LIMIT * explained, WEAKEST / limit)
    compared = errors.eager.any() and errors.compiled.any()
    cannot_tell = ParityAnswer.CANNOT_TELL
    found = (  # the first that holds
        (not compared, cannot_tell, Why.NOT_MEASURED),
        (not np.isfinite(errors.eager).all(), cannot_tell, Why.EAGER_NOT_FINITE),
        (not (errors.repeated <= repeated).all(), cannot_tell, Why.EAGER_VARIES),
        (not np.isfinite(ratios).all(), ParityAnswer.FAIL, Why.NOT_FINITE),
        ((middle > limit).any(), ParityAnswer.FAIL, Why.BEYOND),
        (_is_beyond_rounding(errors, precision, limit), cannot_tell, Why.BEYOND_ROUNDING),
        (judged.mean() < NEEDED_SHARE, cannot_tell, Why.TOO_COARSE),
        ((shown > limit).any(), cannot_tell, Why.AT_TIMES),
        (True, ParityAnswer.PASS, Why.ALIKE),
    )
    answer, why = next((answer, why) for holds, answer, why in found if holds)
    if answer is ParityAnswer.FAIL and reproduced is False:
        answer, why = ParityAnswer.CANNOT_TELL, Why.NOT_REPRODUCED
    worst = None
    if why is Why.NOT_FINITE:
        worst = _first(errors, ratios, ~np.isfinite(ratios))
    elif why is Why.BEYOND:
        lasts = np.arange(len(middle)) == middle.argmax()
        worst = _first(errors, ratios, lasts & (shown == shown[:, lasts].max()))
    elif why in (Why.AT_TIMES, Why.ALIKE):
        worst = _first(errors, ratios, shown == shown.max())
    return ParityVerdict(
        answer=answer,
        why=why,
        worst=worst,
        judged=int(judged.sum()),
        median_ratio=_finite(np.median(ratios[:, judged])) if judged.any() else None,
        exceeded=int((shown > limit).any(axis=1).sum()),
    )


def _is_beyond_rounding(errors: ParityErrors, precision: str, limit: float) -> bool:
    """Whether half of the tensors have errors too large to judge by, and compiled ones that are not
    eager's.

    Compiled and eager draw the same random numbers; where float64 draws others, both are as far
    from it. Where they differ by more than rounding, something else was compared.
    """
    far = max(WEAKEST / limit, min(FAR * EPSILON[precision], 1.0))
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(errors.compiled - errors.eager) > UNLIKE * errors.eager
    unshown = explained_errors(errors, precision) > far
    return bool((unshown & (np.median(apart, axis=0) > 0.5)).mean() >= 0.5)


def _first(errors: ParityErrors, ratios: FloatArray, found: npt.NDArray[np.bool_]) -> WorstTensor:
    """The first (step, tensor) that was found."""
    step, tensor = np.argwhere(found)[0].tolist()
    return WorstTensor(
        tensor=str(errors.tensors[tensor]),
        step=step,
        ratio=_finite(ratios[step, tensor]),
        compiled_error=_finite(errors.compiled[step, tensor]),
        eager_error=_finite(errors.eager[step, tensor]) or 0.0,
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def explained_errors(errors: ParityErrors, precision: str) -> FloatArray:
    """(tensors,) eager's largest error on the tensor over the steps, or the precision's epsilon."""
    return np.asarray(np.maximum(errors.eager.max(axis=0), EPSILON[precision]))


def error_ratios(errors: ParityErrors, precision: str) -> FloatArray:
    """(steps, tensors) the compiled errors as multiples of `explained_errors`."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(errors.compiled / explained_errors(errors, precision))


def lasting(ratios: FloatArray) -> FloatArray:
    """(tensors,) the ratio that a tensor reaches in more than half of the steps. Wrong code is
    wrong in every step; rounding near a kink (ReLU, a maximum) changes single steps by far more."""
    return np.asarray(np.sort(ratios, axis=0)[(len(ratios) - 1) // 2])


def departing(errors: ParityErrors, precision: str, limit: float) -> npt.NDArray[np.bool_]:
    """(tensors,) which tensors a failing job computes wrongly: beyond the limit in most steps,
    where eager is exact enough to tell, or not finite."""
    if parity_verdict(errors, precision, limit).answer is not ParityAnswer.FAIL:
        return np.zeros(len(errors.tensors), dtype=bool)
    ratios = error_ratios(errors, precision)
    judged = explained_errors(errors, precision) <= WEAKEST / limit
    with np.errstate(invalid="ignore"):
        beyond = judged & (lasting(ratios) > limit)
    return np.asarray(~np.isfinite(ratios).all(axis=0) | beyond)


def not_compared(parity: ParityRecord, errors: ParityErrors) -> str | None:
    """What of the model was not compared, in a sentence; None where nothing is missing."""
    if not any(GRADIENT in str(name) for name in errors.tensors):  # after the function's name
        return "No gradient was compared, so the backward pass was not checked."
    trained, compared = parity.trained_parameters, parity.compared_parameters
    if trained and compared is not None and compared < COVERED * trained:
        return f"Only {compared:,} of {trained:,} trained parameters were compared."
    return None
