r"""torchrun, with a note of the signal that killed one of its processes.

    python -m compilegate.job.launch.watched_torchrun --standalone --nproc_per_node 2 \
        --module training.job ...

Such a process leaves no note, and the others do: their connection to it was closed. torchrun alone
knows how each one ended.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Sequence

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main as torchrun

from compilegate.job.errors import killed_by
from compilegate.job.launch.failure import FailureNote, leave_note


def main(arguments: Sequence[str]) -> int:
    """Run it to its end; returns the exit status."""
    try:
        torchrun(list(arguments))
    except ChildFailedError as error:
        _note_signal(error)
        return 1
    return 0


def _note_signal(error: ChildFailedError) -> None:
    killed = [
        (failure.timestamp, rank, -failure.exitcode)
        for rank, failure in error.failures.items()
        # By SIGTERM torchrun itself ends those that are left.
        if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM
    ]
    if not killed:
        return
    _, rank, number = min(killed)
    reason = f"training process {rank} was {killed_by(number)}"
    leave_note(FailureNote(reason, by_input=False, signal=number), os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
