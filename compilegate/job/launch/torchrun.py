"""torch's own launcher on every machine of a job, with a note of the signal that killed one of its
processes.

A killed process leaves no note, and the others do: their connection to it was closed. torchrun
alone knows how each one ended. Until it runs, this needs no torch.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
from typing import List, Mapping, Sequence

from compilegate.job.errors import killed_by
from compilegate.job.launch.failure import FailureNote, leave_note
from compilegate.job.machine.world import host_rank, hosts

PORT = "29500"
"""The port at which several machines meet, where none is given: on SageMaker a job has its machines
to itself. Here jobs share one, and the local target gives each a free port."""


def torchrun_command(
    processes: int, program: Sequence[str], environment: Mapping[str, str]
) -> List[str]:
    """What runs `program` (a script or ``--module NAME``, then its arguments) in so many processes
    on this machine, which meet those of the job's other machines."""
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
    """Run torchrun to its end; returns the exit status."""
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
            leave_note(FailureNote(reason, by_input=False, signal=number), os.environ)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
