"""The programs that prove the gate: each runs, and what it plants is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


def proved(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, f"benchmarks/gate/{program}.py", "--anew", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )


@pytest.mark.slow
def test_every_planted_accident_is_named_and_spoils_the_right_arm() -> None:
    done = proved("accidents")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) > 120


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["log loss, 2 seeds", "clusters in shuffled rows, by ids, 2 seeds", "stalls, 2 seeds"]
)
def test_a_candidate_at_its_limit_passes_seldom(kind: str) -> None:
    done = proved("worse", "--draws", "60", kind)
    assert done.returncode == 0, done.stderr
