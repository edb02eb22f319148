"""Records on this machine: HOME/posture/NAME.json, written only where nobody else has meanwhile.

A record that is damaged is kept beside as NAME.json.damaged-N, for whoever wants to know what
happened. On AWS the same seam, `Records`, is an item of DynamoDB: a parameter of SSM has no
conditional write, and holds 8 KB at most, which a month of decisions outgrows.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compilegate.job.files import write_text
from compilegate.posture.errors import ConflictError, DamagedRecordError, PostureError
from compilegate.posture.events import Event
from compilegate.posture.record import Record, begun_anew, read_record

_NAME = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,255}")
_TRIES = 100


class Records(Protocol):
    """Where records are kept."""

    def read(self, workload: str) -> tuple[str | None, str]:
        """The text of the record and its tag; None and an empty tag where there is none."""
        ...

    def write(self, workload: str, text: str, *, tag: str) -> None:
        """Replace the record that has this tag; raises ConflictError where it has another."""
        ...


@dataclass(frozen=True)
class FileRecords:
    """Records in a folder."""

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
        with self._locked(workload):
            before, found = self.read(workload)
            if found != tag:
                raise ConflictError(f"the record of {workload} was changed meanwhile")
            if before is not None and _is_damaged(before, workload):
                write_text(self._beside(workload), before)
            write_text(self.path(workload), text)

    def _beside(self, workload: str) -> Path:
        path = self.path(workload)
        number = len(list(path.parent.glob(f"{path.name}.damaged-*"))) + 1
        return path.with_name(f"{path.name}.damaged-{number}")

    @contextmanager
    def _locked(self, workload: str) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f".{workload}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _is_damaged(text: str, workload: str) -> bool:
    try:
        read_record(text, workload)
    except DamagedRecordError:
        return True
    return False


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
