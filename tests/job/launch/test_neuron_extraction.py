"""The graphs of a training script are compiled ahead, and a failure of that ends nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "compilegate" / "job" / "launch" / "neuron_extraction.py"
TOOL = """#!/bin/sh
echo "tool: $(basename "$1") $2 $3 $4, imports from $PYTHONPATH"
echo "errors ignored: $NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE"
exit {status}
"""


def extract(path: Path) -> subprocess.CompletedProcess[str]:
    """As the training toolkit starts it, with only what lies in that folder on the PATH."""
    arguments = ["--max_steps", "10", "--training_script", "training/train.py"]
    return subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env={"PATH": f"{path}{os.pathsep}/usr/bin{os.pathsep}/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def tool(folder: Path, status: int) -> Path:
    """Stands for AWS's `neuron_parallel_compile`, which runs on Trainium only."""
    program = folder / "neuron_parallel_compile"
    program.write_text(TOOL.format(status=status))
    program.chmod(0o755)
    return folder


def test_the_script_runs_under_the_tool_with_its_own_arguments(tmp_path: Path) -> None:
    done = extract(tool(tmp_path, status=0))
    python = Path(sys.executable).name
    assert done.returncode == 0
    assert done.stdout == (
        f"tool: {python} training/train.py --max_steps 10, imports from {ROOT}\nerrors ignored: 1\n"
    )


def test_a_tool_that_fails_or_is_not_there_is_said_and_stops_nothing(tmp_path: Path) -> None:
    absent = extract(tmp_path)
    assert absent.returncode == 0
    assert "neuron_parallel_compile cannot be started (No such file or directory)" in absent.stdout
    failed = extract(tool(tmp_path, status=3))
    assert failed.returncode == 0
    assert failed.stdout.splitlines()[-1] == (
        "neuron_parallel_compile ended with exit status 3: training will compile as it goes"
    )
