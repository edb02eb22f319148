"""Which processes train together on XLA devices; no process of several may train alone."""

from __future__ import annotations

import pytest

from compilegate.job.compilers.xla.processes import Processes, joined_processes
from compilegate.job.errors import CompilerError
from compilegate.job.machine.world import ALONE, World


def test_the_processes_of_torchrun_meet_in_host_memory_on_a_cpu_alone() -> None:
    launched = World(size=2, rank=1, local_rank=1)
    assert joined_processes(launched, ALONE, "CPU", machines=1) == Processes(launched, True)
    assert joined_processes(ALONE, ALONE, "CPU", machines=1) == Processes(ALONE, False)
    for hardware in ("GPU", "CUDA", "NEURON"):
        with pytest.raises(
            CompilerError, match=r"torchrun started 2 processes and torch_xla knows of 1: each "
        ):
            joined_processes(launched, ALONE, hardware, machines=1)


def test_what_torch_xla_itself_joins_it_averages() -> None:
    known = World(size=8, rank=3, local_rank=3)
    for launched in (ALONE, known):
        found = joined_processes(launched, known, "GPU", machines=2)
        assert (found.world, found.through_host) == (known, False)
        assert found.averaging == "within the graph of a step, by torch_xla"


def test_machines_without_a_process_that_is_known_are_refused() -> None:
    with pytest.raises(CompilerError, match="the job has 3 machines, and of their processes 2 "):
        joined_processes(ALONE, World(size=2), "GPU", machines=3)
