"""Repayment: when has compilation paid for itself, and does one run get that far?

Steps that are 1.3 times as fast do not make a run end earlier whose compilation takes longer than
all its steps save. Every retraining compiles, or loads what an earlier one compiled, so the
question is put to one run. It comes to a limit for the speed-up of the steady state, since a run of
n samples takes

    baseline   n / rate + its own compile seconds (none, where it is eager)
    candidate  n / (rate x speed-up) + compile seconds

and ends no later when the speed-up is at least  (n / rate) / (n / rate - difference of compile
seconds).  That limit is known much better than the speed-up, so only the latter has an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from compilegate.gate.speed.arm_speed import ArmSpeed, Runs


@dataclass(frozen=True)
class Repayment:
    """What repays a candidate's compilation within a run."""

    steps: int
    """Length of the run, in steps of the candidate."""
    speedup: float | None
    """In the steady state, at which the run ends no later than the baseline's; None when none
    would do, since compiling alone takes as long as the baseline's whole run."""


def repayment(baseline: ArmSpeed, candidate: ArmSpeed, *, runs: float) -> Repayment | None:
    """What it takes within `runs` times the length of the candidate's runs; None where nobody knows
    what compiling took."""
    if baseline.runs is None or candidate.runs is None:
        return None
    steps = math.ceil(candidate.runs.steps * runs)
    whole = steps * candidate.batch_size / baseline.rate
    left = whole - _more_compiling(baseline.runs, candidate.runs)
    return Repayment(steps, whole / left if left > 0.0 else None)


def break_even_samples(baseline: ArmSpeed, candidate: ArmSpeed, speedup: float) -> float | None:
    """Training samples after which compilation has paid for itself, where the candidate's steady
    state is `speedup` times as fast; None when it never does."""
    saved_per_sample = (1.0 - 1.0 / speedup) / baseline.rate
    if saved_per_sample <= 0.0 or baseline.runs is None or candidate.runs is None:
        return None
    samples = _more_compiling(baseline.runs, candidate.runs) / saved_per_sample
    return samples if math.isfinite(samples) else None


def _more_compiling(baseline: Runs, candidate: Runs) -> float:
    """Seconds that the candidate compiles for longer."""
    return max(candidate.compilation.seconds - baseline.compilation.seconds, 0.0)
