"""Workloads that pages show: the first lines of docs/workload.md run as they stand, and
docs/upgrade.md has the arms of its example."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
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


def test_the_arms_of_an_upgrade_differ_in_the_image_alone() -> None:
    """`tests/docs/test_tutorials.py` validates, compiles and judges the example."""
    docs = PROJECT / "docs"
    example = tomllib.loads((docs / "examples" / "upgrade.toml").read_text(encoding="utf-8"))
    page = (docs / "upgrade.md").read_text(encoding="utf-8")
    shown = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert tomllib.loads(shown[1])["arms"] == example["arms"]
    today, later = (dict(arm) for arm in example["arms"].values())
    assert today.pop("image") != later.pop("image")
    assert today == later


@pytest.mark.long
def test_they_run_to_a_verdict(folder: Path) -> None:
    said = compilegate(folder, "run", "first")
    assert re.search(r"^decided: Release .*\bRegistered: first/1, Pending", said, re.MULTILINE), (
        said
    )
