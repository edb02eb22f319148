"""What of PyTorch/XLA needs no torch_xla: which processes train together."""

from __future__ import annotations

import pytest

from compilegate.job.compilers.xla import Processes, joined_processes
from compilegate.job.errors import CompilerError
from compilegate.job.machine.world import ALONE, World

LAUNCHED, KNOWN = World(size=2, rank=1, local_rank=1), World(size=8, rank=3, local_rank=3)


@pytest.mark.parametrize(
    ("launched", "known", "hardware", "machines", "joined"),
    [
        (LAUNCHED, ALONE, "CPU", 1, Processes(LAUNCHED, True)),
        (ALONE, ALONE, "CPU", 1, Processes(ALONE, False)),
        (ALONE, KNOWN, "GPU", 2, Processes(KNOWN, False)),
        (KNOWN, KNOWN, "GPU", 2, Processes(KNOWN, False)),
        (LAUNCHED, ALONE, "GPU", 1, None),
        (LAUNCHED, ALONE, "NEURON", 1, None),
        (ALONE, World(size=2), "GPU", 3, None),
    ],
)
def test_no_process_of_several_trains_alone(
    launched: World, known: World, hardware: str, machines: int, joined: Processes | None
) -> None:
    if joined is not None:
        assert joined_processes(launched, known, hardware, machines=machines) == joined
        return
    with pytest.raises(CompilerError, match="pytorchxla"):
        joined_processes(launched, known, hardware, machines=machines)
