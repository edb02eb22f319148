"""What the evidence holds of things that slowed steps, or kept a compiler from helping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from compilegate.job.names import (
    RULE_BREAK,
    RULE_DYNAMIC_UNSET,
    RULE_ITEM_IN_STEP,
    RULE_LOADER,
    RULE_PADDING,
)

LOADER, SYNCHRONISATION, SHAPES, BREAKS, RECOMPILATIONS = HINDRANCES = (
    "loader",
    "synchronisation",
    "shapes",
    "breaks",
    "recompilations",
)
"""Steps wait for their batches; each asks for the value of a tensor; new shapes keep coming; the
compiler leaves its graph; it compiles one again."""
RULES = {
    LOADER: RULE_LOADER,
    SYNCHRONISATION: RULE_ITEM_IN_STEP,
    SHAPES: RULE_PADDING,
    BREAKS: RULE_BREAK,
    RECOMPILATIONS: RULE_DYNAMIC_UNSET,
}
"""The rule of `compilegate check` that finds each in the source."""
MOST_PLACES = 5


@dataclass(frozen=True)
class Hindrance:
    """One of them, as it was counted."""

    kind: str
    """One of HINDRANCES."""
    count: float
    """How often: questions of a step; shapes, breaks, recompilations in all; of a loader, steps."""
    share: Optional[float] = None
    """The share of the steady steps' time that it takes; None where nobody measured that."""
    where: Tuple[str, ...] = ()
    """Lines of the program, ``train.py:42``, most frequent first."""
    reason: Optional[str] = None
    """In the compiler's words, of the first place."""
    rule: Optional[str] = None
    """The rule of `compilegate check` that says more."""
