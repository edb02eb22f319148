"""Where a workload stands. A state changes by transitions alone."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from compilegate.posture.policy import Policy


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
    policy: Policy
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


Looks = tuple[tuple[Difference, ...], ...]
"""The guarded metrics of each execution that could be compared."""


@dataclass(frozen=True, kw_only=True)
class Track:
    """What the executions of all arms in this posture have shown of one candidate."""

    passes: int = 0
    """In a row, until now."""
    executions: int = 0
    """Those that count for the policy's patience: after the failure that began the newest trial."""
    undecided: int = 0
    """Inconclusive executions since the last pass."""
    refused: str = ""
    """Why the candidate is out; empty while it is in."""
    looks: Looks = ()
    values: tuple[Mapping[str, float], ...] = ()
    """The candidate's own metrics in each of them, above is better."""
    trial: bool = False
    """Whether a failed execution is being repeated; a pass ends that."""
    trials: int = 0
    """How many were begun; each has less of the error to spend."""
    failures: int = 0
    """In a row, within the trial, without the one that began it."""
    recent: Looks = ()
    """The looks after the failure that began the newest trial, which was chosen for being bad; all
    looks where there was none."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What the candidate's metrics were while a baseline still trained beside it."""

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
    since_audit: int = 0
    audit_due: str = ""
    """Why the next execution must train all arms; empty when it need not."""
    rescue: str = ""
    """Why the next execution trains the baseline alone, once: the last one left no model."""
    open: Mapping[str, Plan] = field(default_factory=dict)
    """Executions that were planned and have not ended."""
