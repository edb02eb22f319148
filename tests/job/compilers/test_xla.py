"""What of PyTorch/XLA needs no torch_xla: its report, and which processes train together."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.job.compilers.xla_runtime import causes, cut_by
from compilegate.job.compilers.xla_step import Processes, joined_processes
from compilegate.job.errors import CompilerError
from compilegate.job.machine.world import ALONE, World

RULE = "=" * 80
COMPILATION = f"""
Compilation Analysis: {RULE}
Compilation Analysis: Compilation Cause
Compilation Analysis:   torch_xla.compile
Compilation Analysis: Graph Info:
Compilation Analysis:   Graph Name: training step
Compilation Analysis:   Graph Hash: 2ac5ae483734c848100db0e038f7bbb3
Compilation Analysis:   Number of Graph Inputs: 61
Compilation Analysis:   Number of Graph Outputs: 124
Compilation Analysis: Python Frame Triggered Execution:
Compilation Analysis:   sync (/site-packages/torch_xla/torch_xla.py:87)
Compilation Analysis: {"-" * 80}
Compilation Analysis: {RULE}

Post Compilation Analysis: {RULE}
Post Compilation Analysis: Graph input size: 0.000096 GB
Post Compilation Analysis: {RULE}
"""
CUT = f"""
Unexpected Execution Analysis: {RULE}
Unexpected Execution Analysis: Compilation Cause
Unexpected Execution Analysis:   most likely user code trying to access tensor value
Unexpected Execution Analysis: Python Frame Triggered Execution:
Unexpected Execution Analysis:   forward (/a/place/own_model.py:41)
Unexpected Execution Analysis:   _call_impl (/site-packages/torch/nn/modules/module.py:1786)
Unexpected Execution Analysis: {RULE}
"""


def test_each_compilation_has_its_cause_and_a_cut_its_line(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    nameless = COMPILATION.replace("Compilation Analysis:   Graph Name: training step\n", "")
    second = nameless.replace("torch_xla.compile", "user torch_xla.sync")
    report.write_text(COMPILATION + second + CUT)
    assert causes({"PT_XLA_DEBUG_FILE": str(report)}) == [
        "torch_xla.compile: training step, 61 inputs, 124 outputs",
        "user torch_xla.sync: 61 inputs, 124 outputs",
    ]
    assert cut_by({"PT_XLA_DEBUG_FILE": str(report)}) == "forward in own_model.py:41"
    assert causes({}) == []
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
