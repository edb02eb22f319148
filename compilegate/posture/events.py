"""What can happen to a posture. Each event holds all that its transition goes by, and is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from compilegate.posture.policy import Policy
from compilegate.posture.state import Difference, Posture

Outcome = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Started:
    """An execution asks which arms it trains."""

    execution: str
    when: str
    who: str
    policy: Policy
    candidates: tuple[str, ...]
    """The candidates that the workload declares now."""
    fingerprint: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What an execution showed of one candidate."""

    arm: str
    outcome: Outcome
    reason: str
    crashed: bool = False
    """Whether its job failed, so that the execution registered no model."""
    broken: bool = False
    """Whether it failed by what is no chance: evidence, compiler, arithmetic."""
    speedup: float | None = None
    """The proven one: the interval's lower bound."""
    differences: tuple[Difference, ...] = ()
    """Empty where no baseline trained, or the two could not be compared."""
    values: Mapping[str, float] = field(default_factory=dict)
    """The candidate's own metrics, above is better."""
    turned: tuple[str, ...] = ()
    """Metrics of which lower is better: their values have the other sign."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What the gate of one execution says of its candidates."""

    seen: tuple[Seen, ...] = ()
    registered: str = "none"
    """The arm whose model is registered."""
    nothing_learned: str = ""
    """Why the execution says nothing of any candidate: it was stopped, or its baseline failed."""
    lost: str = ""
    """Why a candidate's job left no model, where that was the machine's doing."""


@dataclass(frozen=True, kw_only=True)
class Settled(Observed):
    """An execution ended, with a verdict or by a step that failed."""

    execution: str
    when: str
    who: str


@dataclass(frozen=True, kw_only=True)
class SetByPerson:
    """A person chose a posture."""

    posture: Posture
    when: str
    who: str
    reason: str
    arm: str = ""
    """The candidate that is to train alone; for `on` only."""


@dataclass(frozen=True, kw_only=True)
class Reset:
    """A person begins anew: all evidence is put aside and the benchmark is run again."""

    when: str
    who: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Lost:
    """The record before this one could not be believed."""

    when: str
    who: str
    reason: str


Event = Started | Settled | SetByPerson | Reset | Lost
KINDS: Mapping[str, type[Event]] = {
    "started": Started,
    "settled": Settled,
    "set": SetByPerson,
    "reset": Reset,
    "lost": Lost,
}
"""As a record names them."""
