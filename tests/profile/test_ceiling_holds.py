"""What compiling gains stays below the ceiling that the profile gave, by processor time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "least"),
    [
        ("many_small", 1.2),  # what inductor certainly gains there
        ("moves_memory", 0.0),
        ("one_matmul", 0.0),
        ("host_bound_update", 0.0),
        ("slow_loader", 0.0),
    ],
)
def test_what_inductor_gains_is_below_the_ceiling(program: str, least: float) -> None:
    benchmark = ROOT / "benchmarks" / "profile_ceiling.py"
    call = [sys.executable, str(benchmark), "--clock", "cpu", "--steps", "24", program]
    ended = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    row = [each.strip() for each in ended.stdout.splitlines()[-1].split("|")]
    assert row[1] == program
    ceiling, gain = float(row[4]), float(row[5])
    assert least < gain < ceiling
