"""`advise` says how likely the gate lets an equal candidate pass, `validate` what never can."""

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


def declared(folder: Path, accuracy: str) -> Path:
    """The built-in workload with another table for accuracy."""
    start = WORKLOAD.index("[gate.metrics.accuracy]")
    end = WORKLOAD.index("[gate.metrics.log_loss]")
    path = folder / "news-topics.toml"
    path.write_text(f"{WORKLOAD[:start]}[gate.metrics.accuracy]\n{accuracy}\n{WORKLOAD[end:]}")
    return path


def forecast(folder: Path, accuracy: str) -> list[str]:
    """What `advise` foresees for that workload."""
    path = declared(folder, accuracy)
    lines: list[str] = json.loads(told(folder, "advise", path.name, "--json"))["forecast"]
    return lines


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


def test_the_chance_of_passing_follows_from_the_expected_noise(tmp_path: Path) -> None:
    guard = 'direction = "higher"\nmargin = 0.01\nexpected_seed_sd = '

    def chance(noise: float) -> int:
        (line,) = (it for it in forecast(tmp_path, f"{guard}{noise}") if "metrics.accuracy" in it)
        found = re.search(r"chance of (\d+)%", line)
        assert found is not None, line
        return int(found[1])

    assert chance(0.016) < 30
    assert chance(0.0005) > 90


def test_where_nothing_is_known_that_is_said_and_a_watched_metric_is_left_out(
    tmp_path: Path,
) -> None:
    lines = forecast(tmp_path, 'direction = "higher"\nmargin = 0.01')
    assert any(it.startswith("metrics.accuracy: how likely an equal candidate") for it in lines)
    watched = forecast(tmp_path, 'direction = "higher"\nwatched = true')
    assert not any("metrics.accuracy" in line for line in watched)


def test_the_newest_verdict_on_the_workload_is_the_pilot(tmp_path: Path) -> None:
    execution = build_execution(candidates=("larger-batch",), examples=800)
    execution.experiment = execution.experiment.model_copy(update={"workload": "news-topics"})
    folder = tmp_path / ".compilegate" / "executions" / "first"
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text(execution.judge().to_json())
    (folder / "execution.json").write_text(json.dumps({"started": 1.0}))
    lines = forecast(tmp_path, 'direction = "higher"\nmargin = 0.01')
    assert [line.partition(":")[0] for line in lines if "chance of" in line] == [
        "metrics.accuracy, larger-batch",
        "metrics.log_loss, larger-batch",
        "min_speedup, larger-batch",
    ]


def test_validate_says_what_to_do_about_a_margin_that_can_never_be_shown(tmp_path: Path) -> None:
    path = declared(tmp_path, 'direction = "higher"\nmargin = 0.01')
    path.write_text(path.read_text(encoding="utf-8").replace("seeds = [1, 2, 3]", "seeds = [1]"))
    lines = told(tmp_path, "validate", path.name).splitlines()
    assert lines[0].endswith("valid: 3 arms, 1 seed, 3 training jobs; to do: 1")
    assert lines[1:] == [f"{path.name}: gate.seeds: one seed can never pass; declare two or more"]
