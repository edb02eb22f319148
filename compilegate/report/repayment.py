"""Break-even with what the evidence leaves open about it. Pure.

The gate knows the step from which compiling has paid for itself at the estimated speed-up. At the
ends of the speed-up's interval it is another, and that is how sure anyone can be of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from compilegate.gate.verdict import RunJudgement, SpeedJudgement


@dataclass(frozen=True)
class BreakEven:
    """Steps of the candidate; None is never."""

    steps: int | None
    """At the estimated speed-up, as the gate has it."""
    earliest: int | None
    """At the upper end of the speed-up's interval."""
    latest: int | None
    """At its lower end."""

    @property
    def range(self) -> str:
        """What the speed-up's interval leaves open, in words."""
        if self.earliest is None:
            return "never anywhere in the speed-up's interval"
        if self.earliest == self.latest == 0:
            return "there is nothing to repay"
        if self.latest is None:
            return f"{self.earliest:,} steps at the earliest, never at the lower end"
        return f"{self.earliest:,} to {self.latest:,} steps"


def break_even_of(speed: SpeedJudgement) -> BreakEven | None:
    """None where nobody knows what compiling took."""
    run = speed.run
    if run is None:
        return None
    earliest, latest = (
        _steps(speed, run, speedup) for speedup in (speed.speedup.upper, speed.speedup.lower)
    )
    return BreakEven(run.break_even_steps, earliest, latest)


def saved_per_step(speed: SpeedJudgement, run: RunJudgement, speedup: float) -> float:
    """Seconds that a step of the candidate saves, where it is `speedup` times as fast; negative
    where it is slower."""
    return run.candidate_batch_size * (1.0 - 1.0 / speedup) / speed.baseline_samples_per_second


def _steps(speed: SpeedJudgement, run: RunJudgement, speedup: float) -> int | None:
    overhead = max(run.candidate_compile_seconds - run.baseline_compile_seconds, 0.0)
    saved = saved_per_step(speed, run, speedup)
    if saved <= 0.0:
        return None
    steps = overhead / saved
    return math.ceil(steps) if math.isfinite(steps) else None
