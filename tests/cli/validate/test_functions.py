"""`validate` and `run` load a workload's own metric functions before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')"]
OWN_METRIC = """
[gate.metrics.own]
direction = "higher"
margin = 0.1
function = "own_metrics.half"
"""


def compilegate(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, command, "topics.toml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    declared = (PROJECT / "tests" / "pipelines" / "topics.toml").read_text()
    code = '[gate]\ncode = ["own_metrics.py"]\n\n[gate.metrics.accuracy]'
    declared = declared.replace("[gate.metrics.accuracy]", code)
    (tmp_path / "topics.toml").write_text(declared + OWN_METRIC)
    for split in ("train", "validation"):
        rows = "".join(f"x,{topic},{number},de\n" for number, topic in enumerate("ab" * 8))
        (tmp_path / f"{split}.csv").write_text(f"body,topic,number,language\n{rows}")
    return tmp_path


@pytest.mark.slow
def test_a_function_that_is_there_is_valid(folder: Path) -> None:
    (folder / "own_metrics.py").write_text("def half(examples):\n    return 0.5\n")
    done = compilegate("validate", folder)
    assert done.returncode == 0, done.stderr
    assert "topics.toml: valid" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", ["validate", "run"])
def test_one_that_is_not_is_refused_before_anything_starts(folder: Path, command: str) -> None:
    (folder / "own_metrics.py").write_text("def third(examples):\n    return 0.3\n")
    done = compilegate(command, folder)
    assert done.returncode == 2
    assert done.stderr.startswith("error: topics.toml: gate.metrics.own.function: ")
    assert "has no attribute 'half'; list its file or package in gate.code" in done.stderr
    assert not (folder / ".compilegate").exists()
