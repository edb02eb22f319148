"""docs/workload.md begins with fifteen lines that run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')"]


def first_file() -> tuple[str, str]:
    """Where the page's first block is to be saved, and what it holds."""
    page = (PROJECT / "docs" / "workload.md").read_text(encoding="utf-8")
    found = re.search(r"```toml (\S+)\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1], found[2]


def compilegate(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path, text = first_file()
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_first_lines_are_fifteen_and_valid(folder: Path) -> None:
    path, text = first_file()
    assert path == "workloads/first.toml"
    assert len(text.splitlines()) <= 15
    assert "valid: 2 arms, " in compilegate(folder, "validate", "first")


@pytest.mark.long
def test_they_run_to_a_verdict(folder: Path) -> None:
    said = compilegate(folder, "run", "first")
    assert re.search(r"^decided: Release .*\bRegistered: first/1, Pending", said, re.MULTILINE), (
        said
    )
