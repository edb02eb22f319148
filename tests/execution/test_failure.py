"""How a step's failure reads."""

from __future__ import annotations

from pathlib import Path

from compilegate.execution.result import StepFailure


def test_a_log_here_follows_the_sentence() -> None:
    failure = StepFailure("exit code 3", Path("jobs/log.txt"), ("one", "the cause"))
    assert failure.text == "exit code 3; log: jobs/log.txt\n  one\n  the cause"
    assert failure.headline == "exit code 3; log: jobs/log.txt"


def test_the_page_of_a_log_has_a_line_of_its_own() -> None:
    failure = StepFailure("AlgorithmError", "https://logs", (), "not allowed to read the log")
    assert failure.text == "AlgorithmError\nlog: https://logs\n(not allowed to read the log)"
    assert failure.headline == "AlgorithmError"


def test_whatever_ends_a_line_of_a_job_begins_another() -> None:
    failure = StepFailure("exit code 1: first\nsecond", None, ("10 %\r20 %",))
    assert failure.headline == "exit code 1: first"
    assert failure.lines == ("exit code 1: first", "second", "  10 %", "20 %")
    assert StepFailure("").headline == ""
