"""The steady steps, on which a speed is measured, by one rule for all jobs. Pure.

Taken at its word, a baseline that counts a first step of 30 s is slow. So the times decide: warm-up
is the first step of each process and the five after it, and each early step (in the first half, or
in what the job calls warm-up) that takes many times the usual and more than any later step, since
it compiled, and five more. All else counts, stalls included, since they are paid for; so do unusual
steps that keep coming.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence.record import Evidence, FloatArray, Steps

WARM_UP = 6
"""The first step of a process, and the five behind it that fill caches and allocator pools."""
SPIKE = 5.0  # times the usual step, from which on a step is taken for one that compiled
MOST_SPIKES = 0.1  # the share of all steps that may be such
LEAST_SHARE = 0.5
"""The share of the steps that must be steady. A job that mostly warms up has measured nothing."""
LEAST_STEP_SECONDS, MOST_SECONDS = 1e-9, 1e8
"""A nanosecond, three years: beyond them a time is damage, not a measurement."""

Mask = npt.NDArray[np.bool_]


def are_durations(seconds: FloatArray) -> Mask:
    """(steps,) which of them are plausible for a step."""
    return np.asarray((seconds >= LEAST_STEP_SECONDS) & (seconds <= MOST_SECONDS))


def steady_mask(evidence: Evidence, steps: Steps) -> Mask:
    seconds = steps.seconds
    steady: Mask = np.ones(len(seconds), dtype=np.bool_)
    for first in (0, *(each.step for each in evidence.resumed)):
        steady[first : first + WARM_UP] = False
    for step in _compiling(evidence, seconds, steady):
        steady[step : step + WARM_UP] = False
    return steady


def steady_seconds(evidence: Evidence, steps: Steps) -> FloatArray:
    return steps.seconds[steady_mask(evidence, steps)]


def added_seconds(evidence: Evidence, steps: Steps) -> float:
    """What the unsteady steps of the first process took more than usual: the time of compilation,
    by the steps alone. Zero where it does not exceed their own spread."""
    steady = steady_mask(evidence, steps)
    if not steady.any():
        return 0.0
    early = ~steady
    early[min((each.step for each in evidence.resumed), default=len(early)) :] = False
    usual = float(np.median(steps.seconds[steady]))
    added = float(steps.seconds[early].sum()) - usual * int(early.sum())
    return added if added > WARM_UP * usual else 0.0


def _compiling(evidence: Evidence, seconds: FloatArray, steady: Mask) -> list[int]:
    """The steps that the times show to have compiled something."""
    if not steady.any():
        return []
    early = np.arange(len(seconds)) < len(seconds) // 2
    early[: 0 if evidence.speed is None else evidence.speed.steady_from] = True
    for each in evidence.resumed:
        early[each.step : each.steady_from] = True
    behind = seconds[~early]
    usual = SPIKE * float(np.median(seconds[steady]))
    limit = max(usual, float(behind.max())) if behind.size else usual
    found = np.flatnonzero(early & steady & (seconds > limit))
    return found.tolist() if len(found) <= MOST_SPIKES * len(seconds) else []
