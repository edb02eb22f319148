"""Records on this machine: HOME/posture/NAME.json, written only where nobody else has meanwhile.

A record that is damaged is kept beside as NAME.json.damaged-N, for whoever wants to know what
happened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from compilegate.job.files import lock, write_text
from compilegate.posture.errors import ConflictError, DamagedRecordError, PostureError
from compilegate.posture.records.record import read_record

_NAME = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,255}")


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
        with lock(self.folder / f".{workload}.lock"):
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


def _is_damaged(text: str, workload: str) -> bool:
    try:
        read_record(text, workload)
    except DamagedRecordError:
        return True
    return False
