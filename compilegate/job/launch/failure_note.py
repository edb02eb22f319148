"""How the training processes are started, and how they say why they failed. Needs no torch.

torchrun is started by the job itself, not by SageMaker's toolkit, so that the same thing runs on
every platform. When one process fails, torchrun ends the others and says only that it did. So the
one that fails leaves a note, which the supervisor reads. Of one that a signal killed
`compilegate.job.launch.watched_torchrun` leaves it; by then
another may have noted that it lost its connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

from compilegate.job.launch.torchrun import torchrun_command
from training.arguments import Job

_NOTE_VARIABLE = "COMPILEGATE_FAILURE_NOTE"


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


def launch_command(job: Job, module: str, arguments: Sequence[str]) -> List[str]:
    """The command that runs ``python -m MODULE ARGUMENTS`` in the job's processes."""
    if job.distribution != "torchrun":
        return [sys.executable, "-m", module, *arguments]
    program = ["--module", module, *arguments]
    return torchrun_command(
        job.processes, program, os.environ, torchrun="compilegate.job.launch.watched_torchrun"
    )


def launch_environment(job: Job, note: Path) -> Dict[str, str]:
    """Variables of the processes; `note` is where one of several tells why it failed."""
    if job.distribution != "torchrun":
        return {}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        _NOTE_VARIABLE: str(note),
        # Each process would otherwise have a thread on every core.
        "OMP_NUM_THREADS": str(max(1, (cores or 1) // job.processes)),
    }


def leave_note(note: FailureNote, environment: Mapping[str, str]) -> bool:
    """In a process of several: write the note, unless another was first. False in one alone.

    What failed first is the reason, and other processes fail because of it; that one was gone is
    no reason where there is another.
    """
    if not environment.get(_NOTE_VARIABLE):
        return False
    path = Path(environment[_NOTE_VARIABLE])
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
