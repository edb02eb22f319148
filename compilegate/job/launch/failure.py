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
from typing import Mapping, Optional

from compilegate.job.cache import discard
from compilegate.job.compilers.failures import explained
from compilegate.job.endings import WRONG_CODE, Ending
from compilegate.job.errors import InputError, report_failure
from compilegate.job.names import (
    FAILURE_NOTE_VARIABLE,
    OUTPUT_DATA_VARIABLE,
    PROFILE_FILE,
    PROFILE_FOLDER,
    PROFILE_VARIABLE,
)

REPORTED_FAILURE = 3
"""Exit status of a process that said itself why it failed."""
_PEER_GONE = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "remote process exited",
)


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


def tell_failure(error: BaseException, environment: Mapping[str, str]) -> int:
    """Say why a process fails: to its supervisor, or to the platform where it has none. Returns the
    exit status."""
    note = FailureNote(
        explained(error), by_input=isinstance(error, InputError), lost_peer=_lost_peer(error)
    )
    if not leave_note(note, environment):
        report_failure(note.reason, environment)
    return REPORTED_FAILURE


def _lost_peer(error: BaseException) -> bool:
    """Whether it says no more than that another process was gone, as gloo and NCCL say it."""
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _PEER_GONE)


def read_note(path: Path) -> Optional[FailureNote]:
    """The note, if one was left."""
    try:
        return FailureNote(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None  # none, or its writer was killed while it wrote


def distrust_compile_cache(ending: Ending, archives: Optional[Path]) -> None:
    """Remove the code that a process may have loaded, where it died of wrong code, so that the next
    one compiles anew."""
    if archives is None or ending is not WRONG_CODE:
        return
    for archive in discard(archives):
        print(f"compile cache: {archive} was removed: its code may be why", flush=True)


def is_profiled(environment: Mapping[str, str]) -> bool:
    """Whether the job was to be profiled, and was: it leaves a profile and no evidence."""
    profile = Path(environment[OUTPUT_DATA_VARIABLE]) / PROFILE_FOLDER / PROFILE_FILE
    return bool(environment.get(PROFILE_VARIABLE)) and profile.is_file()
