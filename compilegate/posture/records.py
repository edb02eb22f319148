"""A workload's record: where it stands, and every decision that led there; in a folder or a table.

The state on top is for people. It is believed only where replaying the decisions leads to the same
state and the digest is theirs; anything else is a damaged record, which means shadow.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import re
import typing
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from compilegate.job.files import lock, write_text
from compilegate.posture.contract import PostureError
from compilegate.posture.state import Chosen, Event, Posture, Registered, Settled, Started, State
from compilegate.posture.transitions import transition

VERSION = 4
KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in typing.get_args(Event)}
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions that reading a document of any shape as a record may raise."""
_TRIES = 100
_NAME = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,255}")
_HEAD = "head"
_CONFLICTS = {"ConditionalCheckFailed", "TransactionConflict", "DuplicateItem"}
_Item = Mapping[str, Any]
_Of = typing.TypeVar("_Of", Started, Settled, Registered)


class DamagedRecordError(PostureError):
    """A record that cannot be believed. The message says what is wrong with it."""


class ConflictError(PostureError):
    """Another process changed the record after it was read."""

    def __init__(self, workload: str) -> None:
        super().__init__(f"another process changed the record of {workload}; try again")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """An event and its consequence."""

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
    stored: int = field(default=0, compare=False)
    """Decisions that the record already had where it was read; none where it was damaged."""
    tag: Any = field(default=None, compare=False)
    """The stored text or head that a write replaces; None where there was nothing."""

    def after(self, *events: Event) -> Record:
        """The record with one more decision for each event."""
        record = self
        for event in events:
            before, moved = record.state.posture, transition(record.state, event)
            decision = Decision(
                event=event, before=before, after=moved.state.posture, reason=moved.reason
            )
            decisions = (*record.decisions, decision)
            record = replace(record, state=moved.state, decisions=decisions)
        return record

    def latest(self, kind: type[_Of], execution: str = "") -> tuple[_Of, Decision] | None:
        """The newest event of this kind, of one execution or of any, and what came of it."""
        for decision in reversed(self.decisions):
            event = decision.event
            if isinstance(event, kind) and execution in {"", event.execution}:
                return event, decision
        return None

    def document(self, decisions: list[Any] | None = None) -> dict[str, Any]:
        """The record as JSON, the state first; `decisions` as they were read, if given."""
        if decisions is None:
            decisions = [encoded(decision) for decision in self.decisions]
        digested = json.dumps([self.workload, decisions], sort_keys=True)
        return {
            "version": VERSION,
            "workload": self.workload,
            "revision": len(decisions),
            "state": encoded(self.state),
            "decisions": decisions,
            "digest": hashlib.sha256(digested.encode()).hexdigest(),
        }

    def to_json(self) -> str:
        """The record as a file's text."""
        return json.dumps(self.document(), indent=1, allow_nan=False) + "\n"


def read_record(text: bytes | str, workload: str) -> Record:
    """The record as it was kept. Raises DamagedRecordError where it cannot be believed."""
    try:
        document = json.loads(text)
        decisions = document["decisions"]
        events = [one["event"] for one in decisions]
        record = Record(workload=workload).after(*(decoded(KINDS[e["kind"]], e) for e in events))
        expected = record.document(decisions)
    except UNREADABLE as error:
        raise DamagedRecordError(f"it is not a record: {error!r}") from error
    wrong = [name for name, value in expected.items() if document.get(name) != value]
    if wrong:
        raise DamagedRecordError(f"its decisions do not match its {', '.join(wrong)}")
    return record


# Where records are kept


def current(records: Records, workload: str, *, when: str, who: str) -> Record:
    """The record as it is now. One that was lost or damaged stands in shadow."""
    text, tag = records.read(workload)
    record = Record(workload=workload, tag=tag)
    if text is None:
        return record
    try:
        read = read_record(text, workload)
    except DamagedRecordError as error:
        reason = f"the record was damaged ({error}), so all arms train and the gate decides"
        lost = Chosen(posture=Posture.SHADOW, when=when, who=who, reason=reason)
        return record.after(lost)
    return replace(read, stored=len(read.decisions), tag=tag)


def decide(records: Records, workload: str, event: Event) -> Record:
    """Add one decision to the record as it is at that moment; retried after a conflict."""
    for _ in range(_TRIES):
        after = current(records, workload, when=event.when, who=event.who).after(event)
        with suppress(ConflictError):
            records.write(after)
            return after
    raise ConflictError(workload)


@dataclass(frozen=True)
class FileRecords:
    """Records in a folder, as NAME.json. A damaged one stays beside it as NAME.json.damaged-N."""

    folder: Path

    def path(self, workload: str) -> Path:
        if not _NAME.fullmatch(workload):
            raise PostureError(
                f"the workload's name is {workload!r:.60}, expected letters, digits and single '-'"
            )
        return self.folder / f"{workload}.json"

    def read(self, workload: str) -> tuple[str | None, str | None]:
        """The text on the disk, which is its own tag."""
        try:
            text = self.path(workload).read_bytes().decode("utf-8", "replace")
        except FileNotFoundError:
            return None, None
        return text, text

    def write(self, record: Record) -> None:
        """Replace the text that was read, under a lock that executions of this machine share.
        Raises ConflictError where it has changed since."""
        path = self.path(record.workload)
        with lock(self.folder / f".{record.workload}.lock"):
            if self.read(record.workload)[1] != record.tag:
                raise ConflictError(record.workload)
            if record.tag is not None and not record.stored:
                number = len(list(path.parent.glob(f"{path.name}.damaged-*"))) + 1
                write_text(path.with_name(f"{path.name}.damaged-{number}"), record.tag)
            write_text(path, record.to_json())


@dataclass(frozen=True)
class DynamoRecords:
    """Records in an account: a DynamoDB table whose partition key is the workload.

        PART              what it holds
        head              where the workload stands, and the digest of its decisions
        0001/000012       the twelfth decision of the first record

    Head and decision are written in one transaction, on the condition that the head is the one that
    was read. So executions that overlap lose nothing. A decision has an item of its own because an
    item holds 400 KB, which a year of daily decisions exceeds. A damaged record is left as it is,
    and a new one begins in the next generation: 0002/000001.
    """

    client: Any
    table: str

    def read(self, workload: str) -> tuple[str | None, _Item | None]:
        """The text, put together from its items; its tag is the head."""
        head: _Item | None = self.client.get_item(
            TableName=self.table, Key=_key(workload, _HEAD), ConsistentRead=True
        ).get("Item")
        if head is None:
            return None, None
        try:
            document = json.loads(head["document"]["S"])
            part = "begins_with(part, :part)", f"{int(head['generation']['N']):04}/"
            decisions = [json.loads(item["decision"]["S"]) for item in self._items(workload, *part)]
            # What was added since the head was read belongs to a later head.
            stored = decisions[: document["revision"]]
            return json.dumps({**document, "decisions": stored}, indent=1) + "\n", head
        except UNREADABLE as error:
            return f"damaged: {error}", head

    def write(self, record: Record) -> None:
        """Add the decisions that the table lacks. Raises ConflictError where the head has changed
        since it was read."""
        workload, document = record.workload, record.document()
        added = document.pop("decisions")[record.stored :]
        if record.stored:
            generation = int(record.tag["generation"]["N"])
        else:
            generation = self._newest_generation(workload) + 1
        state = {name: {"S": document["state"][name]} for name in ("posture", "since", "reason")}
        head = {
            **_key(workload, _HEAD),
            **state,
            "generation": {"N": str(generation)},
            "document": {"S": json.dumps(document)},
        }
        unchanged: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(document)"}
        if record.tag is not None and "document" in record.tag:
            unchanged = {
                "ConditionExpression": "document = :document",
                "ExpressionAttributeValues": {":document": record.tag["document"]},
            }
        puts = [{"Item": head, **unchanged}]
        for number, decision in enumerate(added, record.stored + 1):
            item = {**_key(workload, f"{generation:04}/{number:06}"), **_decision(decision)}
            puts.append({"Item": item, "ConditionExpression": "attribute_not_exists(part)"})
        try:
            self.client.transact_write_items(
                TransactItems=[{"Put": {"TableName": self.table, **put}} for put in puts]
            )
        except self.client.exceptions.TransactionCanceledException as error:
            reasons = {one.get("Code") for one in error.response.get("CancellationReasons", [])}
            if reasons & _CONFLICTS:
                raise ConflictError(workload) from error
            raise

    def _items(self, workload: str, condition: str, part: str, **order: Any) -> Iterator[_Item]:
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table,
            ConsistentRead=True,
            KeyConditionExpression=f"workload = :workload AND {condition}",
            ExpressionAttributeValues={":workload": {"S": workload}, ":part": {"S": part}},
            **order,
        )
        return (item for page in pages for item in page["Items"])

    def _newest_generation(self, workload: str) -> int:
        """The newest that a damaged record, or one that lost its head, has left."""
        order = {"ScanIndexForward": False, "Limit": 1}
        newest = next(self._items(workload, "part < :part", _HEAD, **order), None)
        return 0 if newest is None else int(newest["part"]["S"].partition("/")[0])


def _key(workload: str, part: str) -> dict[str, Any]:
    return {"workload": {"S": workload}, "part": {"S": part}}


def _decision(decision: _Item) -> dict[str, Any]:
    """A decision as a table's item: whole for the program, in parts for people."""
    parts = {
        "decision": json.dumps(decision),
        **{name: decision["event"][name] for name in ("when", "who")},
        **{name: decision[name] for name in ("before", "after", "reason")},
    }
    return {name: {"S": value} for name, value in parts.items()}


Records = FileRecords | DynamoRecords


# Dataclasses as JSON and back, with the standard library


def encoded(value: Any) -> Any:
    """A dataclass as JSON has it: objects, arrays and texts."""
    return json.loads(json.dumps(dataclasses.asdict(value)))


def decoded(kind: Any, value: Any) -> Any:
    """A value of this type from its JSON. Raises one of UNREADABLE for what does not fit it."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        members = {name: decoded(hints[name], item) for name, item in value.items()}
        return typing.cast("type[Any]", kind)(**members)
    if origin is tuple:
        return tuple(decoded(inner[0], item) for item in value)
    if origin is Mapping:
        return {key: decoded(inner[1], item) for key, item in value.items()}
    if type(None) in inner:
        return None if value is None else decoded(inner[0], value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    # A number stays as it was written, or the digest would be another.
    whole = kind is float and type(value) is int
    if type(value) is not kind and not whole and value not in inner:
        raise TypeError(f"{value!r:.60} is not of type {getattr(kind, '__name__', inner)}")
    return value
