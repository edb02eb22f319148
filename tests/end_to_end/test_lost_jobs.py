"""A candidate's jobs that something outside of them kills, on this machine."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.test_own_programs import PROVED, PROVING, run

pytestmark = pytest.mark.slow

KILLED = """
import os, signal
if os.environ["COMPILEGATE_ARM"] == "candidate" and os.path.exists({file!r}):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def lines(done: subprocess.CompletedProcess[str], step: str) -> list[str]:
    """What was told of a step, without the times."""
    return re.findall(rf"^ *\d+:\d\d  {step} +(.*)$", done.stdout, flags=re.MULTILINE)


def test_killed_jobs_are_told_tried_again_and_never_cached(tmp_path: Path) -> None:
    (tmp_path / "proved").mkdir()
    killing = tmp_path / "killing"
    killing.touch()
    script = KILLED.format(file=str(killing)) + PROVING
    (tmp_path / "proved" / "train.py").write_text(script)
    for name in ("train.csv", "validation.csv"):
        (tmp_path / name).write_text("a\nb\n")
    workload = tmp_path / "proved.toml"
    workload.write_text(PROVED.replace("[1, 2, 3, 4, 5]", "[1, 2, 3]"))

    first = run(workload, tmp_path / "home", folder=tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    told = " ".join(lines(first, "Train-candidate-2"))
    assert "succeeded" not in told
    assert "SIGKILL" in told
    (page,) = (tmp_path / "home" / "executions").glob("*/verdict.json")
    verdict = json.loads(page.read_text(encoding="utf-8"))
    assert verdict["decision"]["arm"] == "baseline"
    (candidate,) = verdict["candidates"]
    assert candidate["outcome"] == "inconclusive"
    assert "evidence.lost" in {reason["code"] for reason in candidate["reasons"]}

    killing.unlink()
    second = run(workload, tmp_path / "home", folder=tmp_path)
    assert second.returncode == 0, second.stdout + second.stderr
    for seed in (1, 2, 3):
        assert "taken from the cache" in " ".join(lines(second, f"Train-baseline-{seed}"))
        assert any("succeeded in" in line for line in lines(second, f"Train-candidate-{seed}"))
