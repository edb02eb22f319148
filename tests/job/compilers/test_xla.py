"""What of PyTorch/XLA needs no torch_xla: its report, and which processes train together."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.job.compilers.xla import Processes, joined_processes
from compilegate.job.compilers.xla_runtime import cut_by
from compilegate.job.errors import CompilerError
from compilegate.job.machine.world import ALONE, World

RULE = "=" * 80
CUT = f"""
Unexpected Execution Analysis: {RULE}
Unexpected Execution Analysis: Compilation Cause
Unexpected Execution Analysis:   most likely user code trying to access tensor value
Unexpected Execution Analysis: Python Frame Triggered Execution:
Unexpected Execution Analysis:   forward (/a/place/own_model.py:41)
Unexpected Execution Analysis:   _call_impl (/site-packages/torch/nn/modules/module.py:1786)
Unexpected Execution Analysis: {RULE}
"""


def test_what_cuts_a_step_has_its_line(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_text(CUT)
    assert cut_by({"PT_XLA_DEBUG_FILE": str(report)}) == "forward in own_model.py:41"
    assert cut_by({"PT_XLA_DEBUG_FILE": str(tmp_path / "none")}) == ""


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
