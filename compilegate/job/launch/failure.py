"""How a process of a job says why it failed: it leaves a note for the supervisor that started it.

torchrun is started by the job itself, not by SageMaker's toolkit, so that the same thing runs on
every platform. When one process fails, torchrun ends the others and says only that it did. So the
one that fails leaves a note. For one that a signal killed, `compilegate.job.launch.torchrun` leaves
it; by then another may have noted that it lost its connection. Needs no torch: torch may be why.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Mapping, Optional

from compilegate.job.compilers.failures import explained
from compilegate.job.errors import InputError, report_failure
from compilegate.job.names import FAILURE_NOTE_VARIABLE

REPORTED_FAILURE = 3
"""Exit status of a process that said itself why it failed."""
_PEER_GONE = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "remote process exited",
)
"""How gloo and NCCL say that another process was gone."""


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
    """In a process that a supervisor started: write the note, unless another of the job's processes
    was first. False in any other process.

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


def tell_failure(error: BaseException, environment: Mapping[str, str]) -> int:
    """Say why a process fails: to its supervisor, or to the platform where it has none. Returns the
    exit status."""
    note = FailureNote(
        explained(error),
        by_input=isinstance(error, InputError),
        lost_peer=isinstance(error, RuntimeError) and any(it in str(error) for it in _PEER_GONE),
    )
    if not leave_note(note, environment):
        report_failure(note.reason, environment)
    return REPORTED_FAILURE
