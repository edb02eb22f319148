"""Which colour an arm has, the same everywhere on a page."""

from __future__ import annotations

from compilegate.gate.observations import Observations

BASELINE = "arm-0"
OTHERS = 7
"""Colours of candidates. More candidates than these share colours, and each is named anyway."""


def arm_colours(observations: Observations) -> dict[str, str]:
    """By arm, the class that gives it its colour; the baseline's is the quiet one."""
    candidates = [arm.arm for arm in observations.arms if arm.arm != observations.baseline]
    return {
        observations.baseline: BASELINE,
        **{name: f"arm-{1 + index % OTHERS}" for index, name in enumerate(candidates)},
    }
