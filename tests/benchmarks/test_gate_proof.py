"""The programs that prove the gate, and the one that measures how it scales, run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]


def rows_of(program: str, *arguments: str) -> list[list[str]]:
    """The cells of its tables, by row."""
    done = subprocess.run(
        [sys.executable, f"benchmarks/gate/{program}.py", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert done.returncode == 0, done.stderr
    return [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]


def test_every_planted_accident_is_named_and_spoils_the_right_arm() -> None:
    assert len(rows_of("accidents", "--anew")) > 120


@pytest.mark.parametrize(
    "kind", ["log loss, 3", "clusters in shuffled rows, by ids, 3", "stalls, 3"]
)
def test_a_candidate_at_its_limit_passes_seldom(kind: str) -> None:
    assert len(rows_of("worse", "--anew", "--draws", "60", kind)) == 3


def test_the_gate_judges_evidence_of_each_size() -> None:
    rows = [row[:4] for row in rows_of("scale", "--quick")[1:]]
    assert rows == [["| 10,000", "2", "2", "2"], ["| 10,000", "3", "10", "10"]]
