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
PYTHON = Path(sys.executable).name


@pytest.mark.parametrize(
    ("status", "printed"),
    [
        (0, [f"{PYTHON} training/train.py --max_steps 10 1 /code"]),
        (
            3,
            [
                f"{PYTHON} training/train.py --max_steps 10 1 /code",
                "neuron_parallel_compile ended with exit status 3: training will compile as it "
                "goes",
            ],
        ),
        (
            None,  # there is no such tool
            [
                "neuron_parallel_compile cannot be started (No such file or directory): training "
                "will compile as it goes"
            ],
        ),
    ],
)
def test_the_script_runs_under_the_tool_and_nothing_depends_on_it(
    tmp_path: Path, status: int | None, printed: list[str]
) -> None:
    if status is not None:
        tool = tmp_path / "neuron_parallel_compile"
        tool.write_text(TOOL.format(status=status))
        tool.chmod(0o755)
    done = subprocess.run(
        [sys.executable, PROGRAM, "--max_steps", "10", "--training_script", "training/train.py"],
        env={"PATH": os.pathsep.join([str(tmp_path), "/usr/bin", "/bin"]), "PYTHONPATH": "/code"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, printed)
