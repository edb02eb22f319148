"""What the evidence holds of things that slowed steps, or kept a compiler from helping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from compilegate.job import names

LOADER, SYNCHRONISATION, SHAPES, BREAKS, RECOMPILATIONS = HINDRANCES = (
    "loader",
    "synchronisation",
    "shapes",
    "breaks",
    "recompilations",
)
"""Steps wait for their batches; each reads the value of a tensor; new shapes keep coming; the
compiler leaves its graph; it compiles one again."""
RULES = {
    LOADER: names.RULE_LOADER,
    SYNCHRONISATION: names.RULE_ITEM_IN_STEP,
    SHAPES: names.RULE_PADDING,
    BREAKS: names.RULE_BREAK,
    RECOMPILATIONS: names.RULE_DYNAMIC_UNSET,
}
"""The rule of `compilegate check` that finds each in the source."""
MOST_PLACES = 5


@dataclass(frozen=True)
class Hindrance:
    """One of HINDRANCES, as it was counted."""

    kind: str
    count: float
    """How often: reads of a step; shapes, breaks, recompilations in all; of a loader, steps."""
    share: Optional[float] = None
    """The share of the steady steps' time that it takes; None where nobody measured that."""
    where: Tuple[str, ...] = ()
    """Lines of the program, ``train.py:42``, most frequent first."""
    reason: Optional[str] = None
    """In the compiler's words, of the first place."""
    rule: Optional[str] = None
    """The rule of `compilegate check` that says more."""
