"""A workload's record: where it stands, and every decision that led there.

The state that stands on top is for people. It is believed only where replaying the decisions leads
to the same state, and the digest says that nobody changed them; anything else is a damaged record,
which means shadow.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from compilegate.job.files import lock, write_text
from compilegate.posture.errors import ConflictError, DamagedRecordError, PostureError
from compilegate.posture.events import KINDS, Event, Lost
from compilegate.posture.state import Posture, State
from compilegate.posture.transitions import transition

VERSION = 3
_TRIES = 100
_NAME = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,255}")
_Type = TypeVar("_Type")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One event, and what came of it."""

    number: int
    event: Event
    before: Posture
    after: Posture
    reason: str

    def document(self) -> dict[str, Any]:
        """As JSON; the event says what kind it is."""
        kind = next(name for name, known in KINDS.items() if isinstance(self.event, known))
        return {**encoded(self), "event": {"kind": kind, **encoded(self.event)}}


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
        decisions = (*self.decisions, decision)
        return Record(workload=self.workload, state=moved.state, decisions=decisions)

    def to_json(self) -> str:
        """As it is kept: readable by people, the state first."""
        decisions = [decision.document() for decision in self.decisions]
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
    decisions = document.get("decisions") if isinstance(document, dict) else None
    if not isinstance(decisions, list):
        raise DamagedRecordError("it has no list of decisions")
    promised = {
        "version": VERSION,
        "workload": workload,
        "revision": len(decisions),
        "digest": digest_of(workload, decisions),
    }
    for name, expected in promised.items():
        _expect(document.get(name) == expected, document.get(name), f"its {name}", str(expected))
    record = replayed(workload, map(_read_event, decisions))
    if document.get("state") != encoded(record.state):
        raise DamagedRecordError(f"its decisions lead to another state: {record.state.posture}")
    return record


def digest_of(workload: str, decisions: Any) -> str:
    """What says that nobody changed these decisions."""
    text = json.dumps([workload, decisions], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _read_event(decision: Any) -> Event:
    document = decision.get("event") if isinstance(decision, dict) else None
    if not isinstance(document, dict) or document.get("kind") not in KINDS:
        raise DamagedRecordError(f"an event is {document!r:.60}, expected: {', '.join(KINDS)}")
    rest = {name: value for name, value in document.items() if name != "kind"}
    return decoded(KINDS[document["kind"]], rest)


# Where records are kept.


class Records(Protocol):
    """Where records are kept."""

    def read(self, workload: str) -> tuple[str | None, str]:
        """The text of the record and its tag; None and an empty tag where there is none."""
        ...

    def write(self, workload: str, text: str, *, tag: str) -> None:
        """Replace the record that has this tag; raises ConflictError where it has another."""
        ...


def current(records: Records, workload: str, *, when: str, who: str) -> tuple[Record, str]:
    """The record and its tag. One that was lost or damaged stands in shadow."""
    text, tag = records.read(workload)
    if text is None:
        return Record(workload=workload), tag
    try:
        return read_record(text, workload), tag
    except DamagedRecordError as error:
        reason = f"the record was damaged ({error}), so all arms train and the gate decides"
        return replayed(workload, [Lost(when=when, who=who, reason=reason)]), tag


def decide(records: Records, workload: str, event: Event) -> Record:
    """Add one decision, on the record as it is at that moment; tried again after a conflict."""
    for _ in range(_TRIES):
        record, tag = current(records, workload, when=event.when, who=event.who)
        after = record.after(event)
        try:
            records.write(workload, after.to_json(), tag=tag)
        except ConflictError:
            continue
        return after
    raise ConflictError(f"the record of {workload} was changed {_TRIES} times while this was tried")


@dataclass(frozen=True)
class FileRecords:
    """Records in a folder: NAME.json, written only where nobody else has meanwhile. One that is
    damaged is kept beside as NAME.json.damaged-N, for whoever wants to know what happened."""

    folder: Path

    def path(self, workload: str) -> Path:
        """Where a workload's record is."""
        if not _NAME.fullmatch(workload):
            raise PostureError(
                f"a workload is named {workload!r:.60}, allowed: letters, digits and single '-'"
            )
        return self.folder / f"{workload}.json"

    def read(self, workload: str) -> tuple[str | None, str]:
        """The text as it is on the disk; its tag is the text itself."""
        try:
            text = self.path(workload).read_bytes().decode("utf-8", "replace")
        except FileNotFoundError:
            return None, ""
        return text, text

    def write(self, workload: str, text: str, *, tag: str) -> None:
        """Replace the text that was read, under a lock that executions of this machine share."""
        path = self.path(workload)
        with lock(self.folder / f".{workload}.lock"):
            before, found = self.read(workload)
            if found != tag:
                raise ConflictError(f"the record of {workload} was changed meanwhile")
            if before is not None:
                try:
                    read_record(before, workload)
                except DamagedRecordError:
                    number = len(list(path.parent.glob(f"{path.name}.damaged-*"))) + 1
                    write_text(path.with_name(f"{path.name}.damaged-{number}"), before)
            write_text(path, text)


# Dataclasses as JSON and back, in the standard library alone. What is missing or of another type is
# an error.


def encoded(value: Any) -> Any:
    """Frozen dataclasses as objects, tuples as arrays."""
    if dataclasses.is_dataclass(value):
        return {one.name: encoded(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encoded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(item) for item in value]
    return value.value if isinstance(value, enum.Enum) else value


def decoded(kind: type[_Type], document: Any) -> _Type:
    """A dataclass from its JSON. Raises DamagedRecordError with the place and what was found."""
    found: _Type = _decoded(kind, document, kind.__name__)
    return found


def _decoded(kind: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        _expect(isinstance(value, dict), value, where, "an object")
        hints = typing.get_type_hints(kind)
        odd = ", ".join(sorted(hints.keys() ^ value.keys()))
        _expect(not odd, value, where, f"neither more nor less than its members; differing: {odd}")
        read = {name: _decoded(hints[name], value[name], f"{where}.{name}") for name in hints}
        return typing.cast("type[Any]", kind)(**read)
    if typing.get_origin(kind) is not None:
        return _generic(kind, value, where)
    if issubclass(kind, enum.Enum):
        members = [member.value for member in kind]
        return kind(_expect(value in members, value, where, f"one of {', '.join(members)}"))
    allowed = (int, float) if kind is float else (kind,)
    fits = isinstance(value, allowed) and (kind is bool or not isinstance(value, bool))
    return kind(_expect(fits, value, where, f"of type {kind.__name__}"))


def _generic(kind: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return _expect(value in inner, value, where, f"one of {', '.join(map(str, inner))}")
    if origin is tuple:
        _expect(isinstance(value, list), value, where, "an array")
        return tuple(_decoded(inner[0], item, f"{where}[{n}]") for n, item in enumerate(value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        _expect(isinstance(value, dict), value, where, "an object")
        return {key: _decoded(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    return None if value is None else _decoded(inner[0], value, where)  # an optional member


def _expect(fits: bool, value: Any, where: str, allowed: str) -> Any:
    if not fits:
        raise DamagedRecordError(f"{where} is {value!r:.60}, expected {allowed}")
    return value
