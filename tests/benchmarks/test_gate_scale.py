"""The scale benchmark runs, and judges what it wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_quick_run_prints_a_row_for_each_size():
    done = subprocess.run(
        [sys.executable, "benchmarks/gate/scale.py", "--quick"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:3] for line in done.stdout.splitlines()[2:]]
    assert rows == [["10,000", "2", "2"], ["10,000", "5", "10"]]
