"""The seam between a record and where it is kept, and the one way to add to it."""

from __future__ import annotations

from typing import Protocol

from compilegate.posture.errors import ConflictError, DamagedRecordError
from compilegate.posture.machine.events import Event
from compilegate.posture.records.record import Record, begun_anew, read_record

_TRIES = 100


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
        return begun_anew(workload, when=when, who=who, why=str(error)), tag


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
