"""Metrics are read from a job's log, and no expression hangs the runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compilegate.local.jobs.printed import LineReader, final_metrics

pytestmark = pytest.mark.slow


def read(folder: Path, text: str, *given_up: bool, **patterns: str) -> tuple[Any, list[str]]:
    log, said = folder / "log.txt", []
    log.write_text(text)
    found = final_metrics(patterns, log, [(0, 100.0)], lambda: any(given_up), said.append)
    return found, said


def test_the_last_number_of_each_metric_counts(tmp_path: Path) -> None:
    found, _ = read(
        tmp_path, "loss=3\rloss=2\nloss=nan\nacc: 0.5\nacc: x\n", acc="acc: (.+)", loss="loss=(.+)"
    )
    assert found == [{"MetricName": "acc", "Value": 0.5, "Timestamp": 100.0}]


@pytest.mark.slow
def test_an_expression_that_backtracks_is_given_up_and_told_and_the_others_count(
    tmp_path: Path,
) -> None:
    found, said = read(tmp_path, "a" * 60 + "b\nloss=2\n", bad="(a|a)*c|(a|aa)+$", loss="loss=(.+)")
    assert [metric["Value"] for metric in found] == [2.0]
    (sentence,) = said
    assert "metric bad has no value" in sentence


def test_an_expression_that_backtracks_does_not_outlive_its_execution(tmp_path: Path) -> None:
    found, said = read(tmp_path, "a" * 60 + "b\n", True, bad="(a|a)*c|(a|aa)+$")
    assert found is None
    assert said == []


def test_values_count_wherever_a_log_is_divided(tmp_path: Path) -> None:
    line = "x" * 999 + "\n"
    text = f"first=1\n{line * 200}bar=1\r{'.' * 200_000}\rbar=2\rlast=3"
    found, _ = read(tmp_path, text, first="first=(.+)", bar="bar=(.+)", last="last=(.+)")
    assert {each["MetricName"]: each["Value"] for each in found} == {"first": 1.0, "last": 3.0}
    found, _ = read(tmp_path, f"a=1\n{line * 200}a=2\n{line}", a="^a=(.+)$", none="none=(.+)")
    assert [each["Value"] for each in found] == [2.0]


def test_lines_are_what_a_terminal_would_show() -> None:
    lines: list[str] = []
    reader = LineReader(lines.append)
    for chunk in (b"one\ntw", b"o\n10%\r20%\r", b"30%\r\n\xff"):
        reader.feed(chunk)
    reader.end()
    assert lines == ["one", "two", "30%", "\ufffd"]
    reader.feed(b"x" * 100_000)
    assert len(lines[-1]) == 2000
