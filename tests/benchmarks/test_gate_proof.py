"""The programs that prove the gate, and the one that measures how it scales, run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]


def rows_of(*arguments: str) -> list[list[str]]:
    """The cells of the table that a module prints, by row."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert done.returncode == 0, done.stderr
    return [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][2:]


def test_an_honest_experiment_passes() -> None:
    arguments = ("--anew", "--draws", "20", "--only", "plain, 200 rows")
    assert rows_of("benchmarks.gate", "honest", *arguments)[0][1:5] == ["20", "20", "0", "0"]


@pytest.mark.parametrize(
    "kind", ["log loss, 3", "clusters in shuffled rows, by ids, 3", "stalls, 3"]
)
def test_a_candidate_at_its_limit_passes_seldom(kind: str) -> None:
    arguments = ("--anew", "--draws", "60", "--only", kind)
    assert len(rows_of("benchmarks.gate", "worse", *arguments)) == 1


def test_the_gate_judges_evidence_of_each_size() -> None:
    rows = [row[:4] for row in rows_of("benchmarks.gate.scale", "--quick")]
    assert rows == [["| 10,000", "2", "2", "2"], ["| 10,000", "3", "10", "10"]]
