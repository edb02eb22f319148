"""The page once its execution has ended: its date and the command."""

from __future__ import annotations

import html
import subprocess
from pathlib import Path

import click
import pytest

from compilegate.cli.outcome import complete_page, write_page
from compilegate.cli.provenance import ARGUMENTS, read_provenance, record_provenance
from compilegate.execution.result import ExecutionResult, StepFailure, StepResult
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.gate.observations import observe
from tests.gate.conftest import build_execution


def result_in(folder: Path, *steps: StepResult) -> ExecutionResult:
    failed = any(it.failure for it in steps)
    return ExecutionResult(
        execution_id="k3v9x0qhw2ta",
        pipeline_name="news-topics",
        status=ExecutionStatus.FAILED if failed else ExecutionStatus.SUCCEEDED,
        parameters={"Data": "s3://bucket/data/news/b9983e22"},
        failed_by=None,
        failure=None,
        started=1_795_338_033.0,
        ended=1_795_338_592.0,
        steps={it.name: it for it in steps},
        folder=folder,
    )


def started_by(folder: Path, *arguments: str) -> None:
    """Note what started the execution, as a command does."""
    with click.Context(click.Command("run")) as context:
        context.meta[ARGUMENTS] = arguments
        record_provenance(folder)


@pytest.mark.slow
def test_the_page_gets_what_only_the_outside_knows(tmp_path: Path) -> None:
    execution = build_execution(speedup=1.5)
    (tmp_path / "verdict.json").write_text(execution.judge().to_json())
    observed = observe(execution.experiment, execution.records)
    (tmp_path / "observations.json").write_text(observed.to_json())
    started_by(tmp_path, "run", "news topics", "--max-parallel=2")
    assert complete_page(result_in(tmp_path), ["news/3, Approved"])
    page = html.unescape((tmp_path / "report.html").read_text())
    for shown in (
        "22 November 2026, ",
        "9.3 min",
        "s3://bucket/data/news/b9983e22",
        "compilegate run 'news topics' --max-parallel=2",
        "news/3, Approved",
    ):
        assert shown in page, shown
    for name in ("report.html", "report.md"):
        assert "k3v9x0qhw2ta" in (tmp_path / name).read_text()


def test_a_page_of_another_kind_of_verdict_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text('{"my": "own"}')
    (tmp_path / "report.html").write_text("mine")
    assert not complete_page(result_in(tmp_path))
    assert (tmp_path / "report.html").read_text() == "mine"


def test_a_failed_executions_page_has_its_reason_its_remedy_and_how_to_go_on(
    tmp_path: Path,
) -> None:
    lines = ("Traceback (most recent call last):", "ModuleNotFoundError: No module named 'timm'")
    failure = StepFailure("exit code 1", tmp_path / "log.txt", lines)
    failed = StepResult("train", "Training", StepStatus.FAILED, seconds=5.0, failure=failure)
    waiting = StepResult("gate", "Processing", status=StepStatus.NOT_EXECUTED)
    write_page(result_in(tmp_path, failed, waiting), "compilegate run --resume k3v9x0qhw2ta")
    page = (tmp_path / "report.html").read_text()
    for shown in ("train failed: ModuleNotFoundError", "requirements.txt", "--resume k3v9x0qhw2ta"):
        assert shown in page
    assert "Not reached: gate." in page


@pytest.mark.slow
def test_the_commit_is_noted_and_whether_there_were_other_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("one")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q"], ["add", "file"], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *arguments], check=True)
    found = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    for changed in (False, True):
        started_by(tmp_path, "run")
        assert read_provenance(tmp_path) == {
            "command": "compilegate run",
            "commit": found.stdout.strip(),
            "changed": changed,
        }
        (tmp_path / "file").write_text("two")


@pytest.mark.parametrize("text", ["{", "[]", '{"command": "x"}'])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    assert read_provenance(tmp_path) == {}
    (tmp_path / "origin.json").write_text(text)
    assert read_provenance(tmp_path) == {}
