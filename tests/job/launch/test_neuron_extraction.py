"""The graphs of a training script are compiled ahead, and a failure of that ends nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[3] / "compilegate" / "job" / "launch" / "neuron_extraction.py"
TOOL = """#!/bin/sh
echo "$(basename "$1") $2 $3 $4 $NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE $PYTHONPATH"
exit {status}
"""
"""Stands for AWS's `neuron_parallel_compile`, which runs on Trainium only."""


@pytest.mark.parametrize("status", [0, 3, None])
def test_the_script_runs_under_the_tool_and_nothing_depends_on_it(
    tmp_path: Path, status: int | None
) -> None:
    """Not on how it ends, nor on whether it is there."""
    if status is not None:
        tool = tmp_path / "neuron_parallel_compile"
        tool.write_text(TOOL.format(status=status))
        tool.chmod(0o755)
    done = subprocess.run(
        [sys.executable, PROGRAM, "--max_steps", "10", "--training_script", "training/train.py"],
        env={"PATH": os.pathsep.join([str(tmp_path), "/usr/bin", "/bin"]), "PYTHONPATH": "/code"},
        capture_output=True,
        text=True,
        check=True,
    )
    ran = f"{Path(sys.executable).name} training/train.py --max_steps 10 1 /code\n"
    assert done.stdout.startswith("" if status is None else ran)
    assert ("training will compile as it goes" in done.stdout) == (status != 0)
