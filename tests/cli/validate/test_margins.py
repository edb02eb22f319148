"""`validate` and `advise` say how likely the gate lets an equal candidate pass."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.conftest import build_execution

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')"]
WORKLOAD = (PROJECT / "workloads" / "news-topics.toml").read_text(encoding="utf-8")


def validated(folder: Path, accuracy: str) -> str:
    """Standard output for the built-in workload with another table for accuracy."""
    start = WORKLOAD.index("[gate.metrics.accuracy]")
    end = WORKLOAD.index("[gate.metrics.log_loss]")
    (folder / "news-topics.toml").write_text(
        f"{WORKLOAD[:start]}[gate.metrics.accuracy]\n{accuracy}\n{WORKLOAD[end:]}"
    )
    return told(folder, "validate", "news-topics.toml")


def told(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [*COMMAND, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def chance(printed: str) -> int:
    """The forecast for accuracy, in per cent."""
    told = re.search(r"gate\.metrics\.accuracy: .* chance of (\d+)%", printed)
    assert told is not None, printed
    return int(told[1])


def test_the_chance_of_passing_follows_from_the_expected_noise(tmp_path):
    guard = 'direction = "higher"\nmargin = 0.01\nexpected_seed_sd = '
    assert chance(validated(tmp_path, f"{guard}0.016")) < 30
    assert chance(validated(tmp_path, f"{guard}0.0005")) > 90


def test_where_nothing_is_known_that_is_said(tmp_path):
    printed = validated(tmp_path, 'direction = "higher"\nmargin = 0.01')
    assert "gate.metrics.accuracy: how likely an equal candidate passes is not known" in printed


def test_a_watched_metric_has_no_margin_to_check(tmp_path):
    assert "gate.metrics.accuracy" not in validated(
        tmp_path, 'direction = "higher"\nwatched = true'
    )


def test_the_newest_verdict_on_the_workload_is_the_pilot(tmp_path):
    execution = build_execution(candidates=("larger-batch",), examples=800)
    execution.experiment = execution.experiment.model_copy(update={"workload": "news-topics"})
    folder = tmp_path / ".compilegate" / "executions" / "first"
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text(execution.judge().to_json())
    (folder / "execution.json").write_text(json.dumps({"started": 1.0}))
    printed = validated(tmp_path, 'direction = "higher"\nmargin = 0.01')
    foreseen = [line.split("gate.", 1)[1] for line in printed.splitlines() if "chance of" in line]
    assert [line.partition(":")[0] for line in foreseen] == [
        "metrics.accuracy, larger-batch",
        "metrics.log_loss, larger-batch",
        "min_speedup, larger-batch",
    ]
    document = json.loads(told(tmp_path, "advise", "news-topics.toml", "--json"))
    assert [line for line in document["forecast"] if "chance of" in line] == foreseen
