"""Metrics are read from a job's log, and no expression hangs the runner."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from compilegate.local.errors import StepError
from compilegate.local.jobs.printed.metrics import MetricDefinition, PrintedAt, final_metrics
from compilegate.local.jobs.printed.reading import LineReader

pytestmark = pytest.mark.slow


def read(folder: Path, text: str, *given_up: bool, **patterns: str) -> tuple[Any, list[str]]:
    log, said = folder / "log.txt", []
    log.write_text(text)
    printed_at = PrintedAt()
    printed_at.mark(0, 100.0)
    definitions = [MetricDefinition(n, re.compile(pattern)) for n, pattern in patterns.items()]
    found = final_metrics(definitions, log, printed_at, lambda: any(given_up), said.append)
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
    found, said = read(tmp_path, "a" * 60 + "b\nloss=2\n", bad="(a+)+c", loss="loss=(.+)")
    assert [metric["Value"] for metric in found] == [2.0]
    (sentence,) = said
    assert sentence.startswith("metric bad has no value: its Regex takes over 5 s for 64 KiB")


def test_an_expression_that_backtracks_does_not_outlive_its_execution(tmp_path: Path) -> None:
    found, said = read(tmp_path, "a" * 60 + "b\n", True, bad="(a+)+c")
    assert found is None
    assert said == []


def test_a_log_that_cannot_be_read_is_no_log_without_metrics(tmp_path: Path) -> None:
    printed_at = PrintedAt()
    printed_at.mark(0, 100.0)
    log = tmp_path / "log.txt"
    log.write_text("")
    # What the program is told must be as it wants it: it says so, and nobody takes it for nothing.
    printed_at.marks[0] = (-1, 100.0)
    with pytest.raises(StepError, match=r"the metrics in .*log.txt could not be read: OSError"):
        final_metrics(
            [MetricDefinition("m", re.compile("x"))], log, printed_at, lambda: False, print
        )


def test_lines_are_what_a_terminal_would_show() -> None:
    lines: list[str] = []
    reader = LineReader(lines.append)
    for chunk in (b"one\ntw", b"o\n10%\r20%\r", b"30%\r\n\xff"):
        reader.feed(chunk)
    reader.end()
    assert lines == ["one", "two", "30%", "\ufffd"]
    reader.feed(b"x" * 100_000)
    assert len(lines[-1]) == 2000
