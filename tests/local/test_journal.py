"""What an execution's files tell of a step that failed."""

from __future__ import annotations

import json
from pathlib import Path

from compilegate.execution.failure import StepFailure
from compilegate.execution.result import StepResult
from compilegate.execution.status import StepStatus
from compilegate.local.home.journal import Journal


def journal_with(folder: Path, failure: StepFailure | None) -> Journal:
    step = StepResult("train", "Training", StepStatus.FAILED, log=folder / "log", failure=failure)
    journal = Journal(folder)
    journal.begin("topics", 1.0, {"train": step}, {})
    journal.write_step(step)
    return journal


def test_a_failure_is_read_as_it_was_written(tmp_path: Path) -> None:
    for failure in (
        StepFailure("exit code 1", tmp_path / "log", ("one", "two")),
        StepFailure("no such input"),
        None,
    ):
        read = journal_with(tmp_path, failure).read_files()
        assert read.steps["train"].failure == failure


def test_a_failure_that_an_earlier_version_kept_as_one_text_reads_the_same(tmp_path: Path) -> None:
    text = "exit code 1; log: x/log.txt\n  one\n  two"
    journal = journal_with(tmp_path, None)
    path = tmp_path / "steps/train.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "failure": text}))
    failure = journal.read_files().steps["train"].failure
    assert failure is not None
    assert (failure.text, failure.headline) == (text, "exit code 1; log: x/log.txt")
