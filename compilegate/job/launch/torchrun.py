"""The command of torch's own launcher, on every machine of a job. Needs no torch."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import List, Mapping, Sequence

from compilegate.job.machine.world import host_rank, hosts

PORT = "29500"
"""The port at which several machines meet, where none is given: on SageMaker a job has its machines
to itself. Here jobs share one, and the local target gives each a free port."""


def torchrun_command(
    processes: int,
    program: Sequence[str],
    environment: Mapping[str, str],
    *,
    torchrun: str = "torch.distributed.run",
) -> List[str]:
    """What runs `program` (a script or ``--module NAME``, then its arguments) in so many processes
    on this machine, which meet those of the job's other machines; `torchrun` is the module."""
    machines = hosts(environment)
    meeting = (
        ["--standalone", *_local_address()]
        if len(machines) == 1
        else [
            *("--nnodes", str(len(machines)), "--node_rank", str(host_rank(environment))),
            *("--master_addr", machines[0], "--master_port", environment.get("MASTER_PORT", PORT)),
        ]
    )
    count = ["--nproc_per_node", str(processes)]
    return [sys.executable, "-m", torchrun, *meeting, *count, *program]


def _local_address() -> List[str]:
    """The name that a machine has for itself may not resolve. torch 1.13 has no such option."""
    old = importlib.metadata.version("torch").startswith("1.")
    return [] if old else ["--local_addr", "localhost"]
