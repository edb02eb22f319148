"""torch's launcher on every machine of a job, and why one of its processes failed.

When one process fails, torchrun ends the others and says only that it did. So the failing one
leaves a note for the supervisor; for one that a signal killed, torchrun's own process (`main`)
does.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Mapping, Sequence

from compilegate.job.compilers.failures import explained
from compilegate.job.contract import FAILURE_NOTE_VARIABLE
from compilegate.job.errors import InputError, killed_by, report_failure
from compilegate.job.machine.world import host_rank, hosts

REPORTED_FAILURE = 3  # exit status of a process that left a note
_PEER_GONE = (  # in the words of gloo and NCCL
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "remote process exited",
)
PORT = "29500"
"""Where several machines meet, by default: on SageMaker a job has its machines to itself."""


@dataclass(frozen=True)
class FailureNote:
    reason: str
    by_input: bool = False  # every arm would fail of it
    signal: int = 0  # what killed it; 0 for one that ended by itself
    lost_peer: bool = False  # it is only that another process was gone


def leave_note(note: FailureNote, environment: Mapping[str, str]) -> bool:
    """Write the note, in a process that a supervisor started; else return False. The first note
    stays, unless it says only that another process was gone."""
    if not environment.get(FAILURE_NOTE_VARIABLE):
        return False
    path = Path(environment[FAILURE_NOTE_VARIABLE])
    earlier = read_note(path)
    replaced = earlier is not None and earlier.lost_peer and not note.lost_peer
    with contextlib.suppress(FileExistsError), open(path, "w" if replaced else "x") as file:
        json.dump(asdict(note), file)
    return True


def read_note(path: Path) -> FailureNote | None:
    try:
        return FailureNote(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None  # none, or its writer was killed while it wrote


def tell_failure(error: BaseException, environment: Mapping[str, str]) -> int:
    """Tell the supervisor, or else the platform, why a process fails; returns the exit status."""
    note = FailureNote(
        explained(error),
        by_input=isinstance(error, InputError),
        lost_peer=isinstance(error, RuntimeError) and any(it in str(error) for it in _PEER_GONE),
    )
    if not leave_note(note, environment):
        report_failure(note.reason, environment)
    return REPORTED_FAILURE


def torchrun_command(
    processes: int, program: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """What runs `program` (a script or ``-m NAME``, then its arguments) in that many processes on
    this machine, together with the job's other machines."""
    machines = hosts(environment)
    if len(machines) > 1:
        meeting = [
            *("--nnodes", str(len(machines)), "--node_rank", str(host_rank(environment))),
            *("--master_addr", machines[0], "--master_port", environment.get("MASTER_PORT", PORT)),
        ]
    else:
        # The name that a machine has for itself may not resolve. torch 1.13 has no such option.
        old = importlib.metadata.version("torch").startswith("1.")
        meeting = ["--standalone", *([] if old else ["--local_addr", "localhost"])]
    count = ["--nproc_per_node", str(processes)]
    return [sys.executable, "-m", "compilegate.job.launch.torchrun", *meeting, *count, *program]


def main(arguments: Sequence[str]) -> int:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: PLC0415
    from torch.distributed.run import main as torchrun  # noqa: PLC0415

    try:
        torchrun(list(arguments))
    except ChildFailedError as error:
        killed = [
            (failure.timestamp, rank, -failure.exitcode)
            for rank, failure in error.failures.items()
            # By SIGTERM torchrun itself ends those that are left.
            if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM
        ]
        if killed:
            _, rank, number = min(killed)
            reason = f"training process {rank} was {killed_by(number)}"
            leave_note(FailureNote(reason, signal=number), os.environ)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
