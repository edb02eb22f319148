"""Where a workload stands. A state changes by transitions alone."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


class Posture(enum.StrEnum):
    """How far a workload has come."""

    OFF = "off"
    BENCHMARK = "benchmark"
    SHADOW = "shadow"
    ON = "on"
    REVERTED = "reverted"


ALL_TRAIN = frozenset({Posture.BENCHMARK, Posture.SHADOW})
"""Where every execution trains all arms."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one execution trains, decided at its start."""

    execution: str
    when: str
    posture: Posture
    epoch: int
    candidates: tuple[str, ...]
    """Those that the workload declared then."""
    arms: str
    """`all`, `baseline`, or the name of the candidate that trains alone."""
    audit: bool
    watched: bool
    reason: str
    registers: Literal["gate", "baseline"] = "gate"
    """Whose choice is registered: the gate's, or the baseline whatever the gate finds."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Candidate against baseline in one execution: above zero is better, in the metric's units."""

    metric: str
    difference: float
    standard_error: float
    margin: float
    """How much worse is still acceptable; above zero."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What the jobs of one arm took in one execution."""

    arm: str
    jobs: int
    seconds: float
    """All these jobs together took so long, from the start of each process to its end."""
    usd: float | None
    """None where the price is not known."""


@dataclass(frozen=True, kw_only=True)
class Track:
    """What the executions of this posture have shown of one candidate."""

    passes: int = 0
    """In a row, until now."""
    failures: int = 0
    """In a row, until now; in an audit the first of them refuses nothing."""
    executions: int = 0
    refused: str = ""
    """Why the candidate is out; empty while it is in."""
    looks: tuple[tuple[Difference, ...], ...] = ()
    """The guarded metrics of each execution that could be compared."""
    values: tuple[Mapping[str, float], ...] = ()
    """The candidate's own metrics in each of them, above is better."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What the candidate's metrics were while a baseline still trained beside it."""

    arm: str
    when: str
    """When the newest of its executions ended."""
    values: tuple[Mapping[str, float], ...]
    margins: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class State:
    """Where a workload stands, and why."""

    posture: Posture = Posture.SHADOW
    since: str = ""
    reason: str = (
        "there is no record, which may have been lost: all arms train and the gate decides"
    )
    epoch: int = 0
    """How often the posture has moved. What was measured under another epoch moves nothing."""
    arm: str = ""
    """The candidate that trains alone in `on`."""
    promoted: str = ""
    """When `on` was entered: the watch window begins there."""
    tracks: Mapping[str, Track] = field(default_factory=dict)
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    """What the evidence was gathered under: code, data schema, image, instance, libraries."""
    reference: Reference | None = None
    alone: tuple[Mapping[str, float], ...] = ()
    """The metrics of the executions in `on` that trained the candidate alone."""
    since_audit: int = 0
    audit_due: str = ""
    """Why the next execution must train all arms; empty when it need not."""
    undecided_audits: int = 0
    trial: Track | None = None
    """The audits since one failed, without that one: it was chosen for being bad."""
    trials: int = 0
    """How many were begun since the promotion; each has less of the error to spend."""
    rescue: str = ""
    """Why the next execution trains the baseline alone, once: the last one left no model."""
    open: Mapping[str, Plan] = field(default_factory=dict)
    """Executions that were planned and have not ended."""
