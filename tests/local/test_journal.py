"""What an execution's files tell, and which execution is continued."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.failure import StepFailure
from compilegate.execution.result import StepResult
from compilegate.execution.status import StepStatus
from compilegate.local import latest_unfinished
from compilegate.local.home.journal import Journal, new_execution


def journal_with(folder: Path, failure: StepFailure | None) -> Journal:
    step = StepResult("train", "Training", StepStatus.FAILED, log=folder / "log", failure=failure)
    journal = Journal(folder)
    journal.write_execution(
        replace(new_execution(folder, "topics", {}, 1.0), steps={"train": step})
    )
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


def begun(
    home: Path, name: str, started: float, *, pipeline: str = "topics", **changed: Any
) -> None:
    journal = Journal(home / "executions" / name)
    journal.write_execution(new_execution(journal.folder, pipeline, {}, started))
    path = journal.folder / "execution.json"
    ended = {"status": "Stopped", **changed}
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **ended}))


@pytest.mark.parametrize("newest", ["stopped", "failed", "killed"])
def test_the_newest_unfinished_execution_is_continued_whatever_ran_after_it(
    tmp_path: Path, newest: str
) -> None:
    now = time.time()
    assert latest_unfinished(tmp_path, "topics") is None
    begun(tmp_path, "older", now - 60)
    begun(tmp_path, "newer", now - 50)
    kinds = {
        "failed": {"status": "Failed", "failed_by": "job"},
        "killed": {"status": "Executing"},
    }
    begun(tmp_path, "newest", now - 40, **kinds.get(newest, {}))
    begun(tmp_path, "finished", now - 30, status="Succeeded")
    begun(tmp_path, "refused", now - 20, status="Failed", failed_by="fail-step")
    begun(tmp_path, "another", now - 10, pipeline="other")
    begun(tmp_path, "tomorrow", now + 86_400, status="Succeeded")
    begun(tmp_path, "misdated", now + 86_400)
    found = latest_unfinished(tmp_path, "topics")
    assert found is not None
    assert found.execution_id == "newest"
