"""A posture's state, and the events that change it. Only transitions change a state.

Each event holds all that its transition depends on, and the record keeps it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from compilegate.posture.contract import ALL, Policy


class Posture(enum.StrEnum):
    """The stage of a workload."""

    OFF = "off"
    BENCHMARK = "benchmark"
    SHADOW = "shadow"
    ON = "on"
    REVERTED = "reverted"


ALL_TRAIN = frozenset({Posture.BENCHMARK, Posture.SHADOW})
"""Postures in which every execution trains all arms."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The arms that one execution trains, decided at its start."""

    posture: Posture
    epoch: int
    candidates: tuple[str, ...]
    """Candidates that the workload declared then."""
    policy: Policy
    arms: str
    """`all`, `baseline`, or the name of the candidate that trains alone."""
    watched: bool
    reason: str
    registers: Literal["gate", "baseline"]
    """Whose choice is registered: the gate's, or the baseline whatever the gate finds."""

    @property
    def audit(self) -> bool:
        """Whether all arms train although a candidate trains alone otherwise."""
        return self.posture is Posture.ON and self.arms == ALL


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Candidate against baseline in one execution: above zero is better, in the metric's units."""

    metric: str
    difference: float
    standard_error: float
    margin: float
    """How much worse is still acceptable; above zero."""


Looks = tuple[tuple[Difference, ...], ...]
"""The guarded metrics of each execution that could be compared."""


@dataclass(frozen=True, kw_only=True)
class Track:
    """Results of one candidate, over the executions of all arms in this posture."""

    passes: int = 0
    """Passes in a row, until now."""
    executions: int = 0
    """Executions that count for the policy's patience: since the failure that began the newest
    trial."""
    refused: str = ""
    """Why the candidate is out; empty while it is in."""
    looks: Looks = ()
    values: tuple[Mapping[str, float], ...] = ()
    """The candidate's own metrics in each of them; higher is better."""
    trial: bool = False
    """Whether a failed execution is being repeated; a pass ends that."""
    trials: int = 0
    """Trials so far; each has less of the error to spend."""
    failures: int = 0
    """Failures in a row within the trial, without the one that began it."""
    recent: Looks = ()
    """The looks after the failure that began the newest trial, which was chosen for being bad; all
    looks where there was none."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The candidate's metrics while a baseline still trained beside it."""

    when: str
    """When the newest of its executions ended."""
    values: tuple[Mapping[str, float], ...]
    margins: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class State:
    """A workload's posture and its history."""

    posture: Posture = Posture.SHADOW
    since: str = ""
    reason: str = "there is no record: all arms train and the gate decides"
    epoch: int = 0
    """Moves of the posture until now. A verdict on an execution of another epoch moves nothing."""
    arm: str = ""
    """The candidate that trains alone in `on`."""
    tracks: Mapping[str, Track] = field(default_factory=dict)
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    """Digests of what the evidence was gathered under: code, data, image, instance, recipe."""
    reference: Reference | None = None
    since_audit: int = 0
    audit_due: str = ""
    """Why the next execution must train all arms; empty when it need not."""
    rescue: str = ""
    """Why the next execution trains the baseline alone, once: the last one left no model."""
    open: Mapping[str, Plan] = field(default_factory=dict)
    """Executions that were planned and have not ended."""


Outcome = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class _Happened:
    when: str
    who: str


@dataclass(frozen=True, kw_only=True)
class Started(_Happened):
    """An execution asks which arms it trains."""

    kind: Literal["Started"] = "Started"
    execution: str
    policy: Policy
    candidates: tuple[str, ...]
    fingerprint: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The result of one candidate in one execution."""

    arm: str
    outcome: Outcome
    reason: str
    crashed: bool = False
    """Whether its job failed, so that the execution registered no model."""
    broken: bool = False
    """Whether it failed for a reason other than chance: evidence, compiler, arithmetic."""
    speedup: float | None = None
    """The interval's lower bound."""
    differences: tuple[Difference, ...] = ()
    """Empty where no baseline trained, or the two could not be compared."""
    values: Mapping[str, float] = field(default_factory=dict)
    """The candidate's own metrics; higher is better."""
    turned: tuple[str, ...] = ()
    """Metrics where lower is better: their values have the other sign."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The gate's results for the candidates of one execution."""

    seen: tuple[Seen, ...] = ()
    registered: str = "none"
    """The arm whose model is registered."""
    nothing_learned: str = ""
    """Why the execution says nothing about any candidate: it was stopped, its baseline failed."""
    lost: str = ""
    """Why a candidate's job left no model, where the machine caused that."""


@dataclass(frozen=True, kw_only=True)
class Settled(_Happened, Observed):
    """An execution ended, with a verdict or by a step that failed."""

    kind: Literal["Settled"] = "Settled"
    execution: str


@dataclass(frozen=True, kw_only=True)
class Registered(_Happened):
    """An execution registered its model, and kept its evidence for the next gate."""

    kind: Literal["Registered"] = "Registered"
    execution: str
    made: str
    """A digest of what trained, whose choice was registered, and all that both depended on."""


@dataclass(frozen=True, kw_only=True)
class Chosen(_Happened):
    """A posture was chosen whatever was found: by a person, or because the record was damaged."""

    kind: Literal["Chosen"] = "Chosen"
    posture: Posture
    reason: str
    arm: str = ""
    """The candidate that is to train alone; for `on` only."""


Event = Started | Settled | Registered | Chosen
