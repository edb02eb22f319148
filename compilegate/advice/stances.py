"""What a consideration may say of an option. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from compilegate.advice.known.facts import Standing
from compilegate.advice.rules import Consideration


class Stance(StrEnum):
    """What a consideration says."""

    FOR = "for"
    AGAINST = "against"
    STOPS = "stops"
    OPEN = "open"
    NEUTRAL = "does not matter"


@dataclass(frozen=True)
class Considered:
    """One consideration of one option."""

    name: str
    title: str
    rank: int
    """1 is the weightiest."""
    stance: Stance
    sentence: str
    """Why, without a full stop."""
    standing: Standing
    """How good the fact behind it is."""
    question: str
    """What answers it, where it is not known."""
    settles: str
    find_out: str


def considered(
    consideration: Consideration,
    stance: Stance,
    sentence: str,
    standing: Standing = Standing.KNOWN,
) -> Considered:
    """The consideration with what it says. What is not known stops nothing and proves nothing."""
    if standing is not Standing.KNOWN and stance in (Stance.FOR, Stance.STOPS):
        stance = Stance.OPEN
    return Considered(
        name=consideration.name,
        title=consideration.title,
        rank=consideration.rank,
        stance=stance,
        sentence=sentence,
        standing=standing,
        question=consideration.question,
        settles=consideration.settles,
        find_out=consideration.find_out,
    )


Said = tuple[Stance, str, Standing]
NOT_HERE: Said = (Stance.NEUTRAL, "it does not matter for this option", Standing.KNOWN)
