"""A workload's record: where it stands, and every decision that led there.

The state that stands on top is for people. It is believed only where replaying the decisions leads
to the same state, and the digest says that nobody changed them; anything else is a damaged record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from compilegate.posture.errors import DamagedRecordError
from compilegate.posture.machine.events import Event, Lost
from compilegate.posture.machine.transitions import transition
from compilegate.posture.records.coding import decoded, encoded, event_document, read_event
from compilegate.posture.state import Posture, State

VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One event, and what came of it."""

    number: int
    event: Event
    before: Posture
    after: Posture
    reason: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """All that is known of a workload's posture."""

    workload: str
    state: State = field(default_factory=State)
    decisions: tuple[Decision, ...] = ()

    @property
    def revision(self) -> int:
        """What a conditional write compares: it grows by one with every decision."""
        return len(self.decisions)

    def after(self, event: Event) -> Record:
        """The record with one decision more."""
        moved = transition(self.state, event)
        decision = Decision(
            number=self.revision + 1,
            event=event,
            before=self.state.posture,
            after=moved.state.posture,
            reason=moved.reason,
        )
        return Record(
            workload=self.workload,
            state=moved.state,
            decisions=(*self.decisions, decision),
        )

    def to_json(self) -> str:
        """As it is kept: readable by people, the state first."""
        decisions = [_decision_document(decision) for decision in self.decisions]
        document = {
            "version": VERSION,
            "workload": self.workload,
            "revision": self.revision,
            "state": encoded(self.state),
            "decisions": decisions,
            "digest": digest_of(self.workload, decisions),
        }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"


def replayed(workload: str, events: Iterable[Event]) -> Record:
    """The record that the events lead to."""
    record = Record(workload=workload)
    for event in events:
        record = record.after(event)
    return record


def read_record(text: bytes | str, workload: str) -> Record:
    """The record as it was kept. Raises DamagedRecordError where it cannot be believed."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedRecordError(f"it is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        found = document.get("version") if isinstance(document, dict) else document
        raise DamagedRecordError(f"its version is {found!r:.40}, expected {VERSION}")
    decisions = document.get("decisions")
    if document.get("workload") != workload or not isinstance(decisions, list):
        raise DamagedRecordError(f"it is not the record of {workload}")
    if document.get("digest") != digest_of(workload, decisions):
        raise DamagedRecordError("its decisions are not those that its digest was made of")
    record = replayed(workload, (_read_decision(item).event for item in decisions))
    kept = decoded(State, document.get("state"))
    if encoded(record.state) != encoded(kept) or document.get("revision") != record.revision:
        raise DamagedRecordError(
            f"it says {kept.posture} and its decisions lead to {record.state.posture}, or to "
            "another state of that"
        )
    return record


def begun_anew(workload: str, *, when: str, who: str, why: str) -> Record:
    """In place of a record that was damaged: shadow, whatever it said."""
    reason = f"the record was damaged ({why}), so all arms train and the gate decides"
    return Record(workload=workload).after(Lost(when=when, who=who, reason=reason))


def _decision_document(decision: Decision) -> dict[str, Any]:
    return {
        "number": decision.number,
        "before": str(decision.before),
        "after": str(decision.after),
        "reason": decision.reason,
        "event": event_document(decision.event),
    }


def _read_decision(document: Any) -> Decision:
    if not isinstance(document, dict):
        raise DamagedRecordError(f"{document!r:.60} is no decision")
    try:
        return Decision(
            number=int(document["number"]),
            event=read_event(document["event"]),
            before=Posture(document["before"]),
            after=Posture(document["after"]),
            reason=str(document["reason"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedRecordError(f"a decision cannot be read: {error}") from error


def digest_of(workload: str, decisions: Any) -> str:
    """What says that nobody changed these decisions."""
    text = json.dumps([workload, decisions], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
