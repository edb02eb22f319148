"""What torch_xla's own report of compilations says."""

from __future__ import annotations

from pathlib import Path

from compilegate.job.compilers.xla.compilations import causes, cut_by

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


def test_each_compilation_has_its_cause(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    nameless = COMPILATION.replace("Compilation Analysis:   Graph Name: training step\n", "")
    report.write_text(COMPILATION + nameless.replace("torch_xla.compile", "user torch_xla.sync"))
    assert causes({"PT_XLA_DEBUG_FILE": str(report)}) == [
        "torch_xla.compile: training step, 61 inputs, 124 outputs",
        "user torch_xla.sync: 61 inputs, 124 outputs",
    ]


def test_what_cut_a_step_in_two_is_named_with_its_line(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_text(COMPILATION + CUT)
    assert cut_by({"PT_XLA_DEBUG_FILE": str(report)}) == "forward in own_model.py:41"


def test_without_a_report_there_are_no_causes(tmp_path: Path) -> None:
    assert causes({}) == []
    assert cut_by({"PT_XLA_DEBUG_FILE": str(tmp_path / "none")}) == ""
