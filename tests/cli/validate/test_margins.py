"""`compilegate validate` says how likely the declared seeds show each margin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    done = subprocess.run(
        [*COMMAND, "validate", "news-topics.toml"],
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
