"""The rules of this family."""

from __future__ import annotations

from compilegate.check.rules.rule import Rule
from compilegate.check.rules.torch_compile import (
    breaks,
    checkpoints,
    lost,
    optimizers,
    options,
    placement,
    precision,
    shapes,
    wrapper,
)

RULES: tuple[Rule, ...] = (
    *lost.RULES,
    *wrapper.RULES,
    *checkpoints.RULES,
    *breaks.RULES,
    *optimizers.RULES,
    *shapes.RULES,
    *placement.RULES,
    *precision.RULES,
    *options.RULES,
)
