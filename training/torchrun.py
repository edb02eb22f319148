"""The command of torch's own launcher, on every machine of a job. Needs no torch."""

from __future__ import annotations

import sys
from typing import List, Mapping, Sequence

from training.world import host_rank, hosts

PORT = 29500
"""Of the rendezvous of several machines."""


def torchrun_command(
    processes: int, program: Sequence[str], environment: Mapping[str, str]
) -> List[str]:
    """What runs `program` (a script or ``--module NAME``, then its arguments) in so many processes
    on this machine, which meet those of the job's other machines."""
    machines = hosts(environment)
    meeting = (
        # The name that a machine has for itself may not resolve.
        ["--standalone", "--local_addr", "localhost"]
        if len(machines) == 1
        else [
            *("--nnodes", str(len(machines)), "--node_rank", str(host_rank(environment))),
            *("--master_addr", machines[0], "--master_port", str(PORT)),
        ]
    )
    count = ["--nproc_per_node", str(processes)]
    return [sys.executable, "-m", "torch.distributed.run", *meeting, *count, *program]
