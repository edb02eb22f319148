"""The learning rate of each step: a linear rise, then a linear fall to zero. Pure."""

from __future__ import annotations


def warmup_steps(steps: int, warmup_fraction: float) -> int:
    """How many of the steps the rate rises in; never all of them."""
    return min(round(steps * warmup_fraction), steps - 1)


def rate_factor(step: int, steps: int, warmup: int) -> float:
    """The part of the peak rate that step number `step` (from 0) of `steps` uses.

    It reaches 1 in step `warmup` and would reach 0 in step `steps`, which is not taken; so no
    step of the run has a rate of zero.
    """
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return (steps - step) / (steps - warmup)
