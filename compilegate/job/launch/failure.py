"""How a job that failed says why: one of its processes leaves a note, and the job its evidence.

torchrun is started by the job itself, not by SageMaker's toolkit, so that the same thing runs on
every platform. When one process fails, torchrun ends the others and says only that it did. So the
one that fails leaves a note, which the supervisor reads. For one that a signal killed,
`compilegate.job.launch.watched_torchrun` leaves it; by then another may have noted that it lost its
connection. Needs no torch: torch may be why.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Mapping, Optional, Union

from compilegate.job.evidence import Evidence, write_evidence
from compilegate.job.names import FAILURE_NOTE_VARIABLE


def record_failure(output_data_dir: Union[str, Path], evidence: Evidence) -> None:
    """Write evidence that says why the arm could not be trained, and print the reason."""
    print(f"recorded: arm {evidence.arm} could not be trained: {evidence.failure}", flush=True)
    write_evidence(output_data_dir, evidence)


@dataclass(frozen=True)
class FailureNote:
    """Why a process failed."""

    reason: str
    by_input: bool
    """Whether every arm would fail of it."""
    signal: int = 0
    """What killed it; 0 for one that ended by itself."""
    lost_peer: bool = False
    """Whether it is only that another process was gone."""


def leave_note(note: FailureNote, environment: Mapping[str, str]) -> bool:
    """In a process of several: write the note, unless another was first. False in one alone.

    What failed first is the reason, and other processes fail because of it; that one was gone is
    no reason where there is another.
    """
    if not environment.get(FAILURE_NOTE_VARIABLE):
        return False
    path = Path(environment[FAILURE_NOTE_VARIABLE])
    earlier = read_note(path)
    replaced = earlier is not None and earlier.lost_peer and not note.lost_peer
    with contextlib.suppress(FileExistsError), open(path, "w" if replaced else "x") as file:
        json.dump(asdict(note), file)
    return True


def read_note(path: Path) -> Optional[FailureNote]:
    """The note, if one was left."""
    try:
        return FailureNote(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None  # none, or its writer was killed while it wrote
