"""The page once its execution has ended: its date, its jobs in time, the command it came from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest

from compilegate.advice import Range
from compilegate.advice.told.foretold import Foretold
from compilegate.cli.terminal.origin import ARGUMENTS, Origin, note_origin, read_origin
from compilegate.cli.terminal.outcome import complete_page, write_page
from compilegate.execution.failure import StepFailure
from compilegate.execution.result import ExecutionResult, StepResult
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.gate.observations import observe
from tests.gate.conftest import build_execution

HALF_READ = '{"command": "x", "commit": "y", "changed": false, "expected": 3}'
STARTED = 1_795_338_033.0


def step(name: str, begin: float, seconds: float, **fields: object) -> StepResult:
    values = {"status": StepStatus.SUCCEEDED, "job_name": f"job-{name}", **fields}
    return StepResult(name, "Training", started=STARTED + begin, seconds=seconds, **values)


def result_in(folder: Path, *steps: StepResult, **fields: object) -> ExecutionResult:
    values = {
        "execution_id": "k3v9x0qhw2ta",
        "pipeline_name": "news-topics",
        "status": ExecutionStatus.SUCCEEDED,
        "parameters": {"Data": "s3://bucket/data/news/b9983e22"},
        "failed_by": None,
        "failure": None,
        "started": STARTED,
        "ended": STARTED + 559.0,
        **fields,
    }
    return ExecutionResult(steps={it.name: it for it in steps}, folder=folder, **values)


def started_by(folder: Path, *arguments: str) -> None:
    """Note what started the execution, as a command does."""
    with click.Context(click.Command("run")) as context:
        context.meta[ARGUMENTS] = arguments
        note_origin(folder)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a commit of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "file").write_text("one")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q"], ["add", "file"], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *arguments], check=True)
    return folder


@pytest.mark.slow
def test_the_verdicts_page_gets_what_only_the_outside_knows(
    verdict, observations, tmp_path: Path
) -> None:
    (tmp_path / "verdict.json").write_text(verdict.to_json())
    (tmp_path / "observations.json").write_text(observations.to_json())
    started_by(tmp_path, "run", "news topics", "--max-parallel=2")
    steps = [step("Train-larger-batch-2", 20.0, 300.0), step("Train-baseline-1", 1.0, 60.0)]
    cached = step("Train-broken-1", 1.0, 0.0, cached_from="earlier")
    assert complete_page(result_in(tmp_path, *steps, cached))
    page = (tmp_path / "report.html").read_text()
    for told in (
        "22 November 2026, ",
        'datetime="2026-11-22T',
        "9.3 min",
        "k3v9x0qhw2ta",
        "s3://bucket/data/news/b9983e22",
        "compilegate run &#39;news topics&#39; --max-parallel=2",
        "Train-larger-batch-2, succeeded, 5.0 min, began after 20.0 s",
        "Train-broken-1, succeeded, from the cache",
    ):
        assert told in page, told
    timeline = page[page.index('id="timeline-title"') :]
    assert timeline.index("Train-baseline-1") < timeline.index("Train-larger-batch-2")
    assert 'class="span arm-1"' in timeline
    assert "k3v9x0qhw2ta" in (tmp_path / "report.md").read_text()


@pytest.mark.slow
def test_the_page_tells_what_advice_expected_from_what_was_measured(tmp_path: Path) -> None:
    execution = build_execution(speedup=1.5)
    (tmp_path / "verdict.json").write_text(execution.judge().to_json())
    observed = observe(execution.experiment, execution.records)
    (tmp_path / "observations.json").write_text(observed.to_json())
    told = Foretold(
        option="torch-compile",
        speedup=Range(1.0, 1.2),
        rests_on="published",
        machine="ml.g5.xlarge",
    )
    with click.Context(click.Command("run")):
        note_origin(tmp_path, [told.document()])
    (noted,) = read_origin(tmp_path).expected
    assert Foretold.from_document(noted) == told
    assert complete_page(result_in(tmp_path))
    page = (tmp_path / "report.html").read_text()
    assert "Advice on fast" in page
    assert "1.00 to 1.20 times as fast was expected for ml.g5.xlarge (published)" in page
    assert "not as expected" in (tmp_path / "report.md").read_text()


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
    failed = step("Train-baseline-1", 0.0, 5.0, status=StepStatus.FAILED, failure=failure)
    waiting = StepResult("Gate", "Processing", status=StepStatus.NOT_EXECUTED)
    result = result_in(tmp_path, failed, waiting, status=ExecutionStatus.FAILED)
    write_page(result, "compilegate run --resume k3v9x0qhw2ta")
    page = (tmp_path / "report.html").read_text()
    assert "<h1>Train-baseline-1 failed: ModuleNotFoundError: No module named" in page
    assert "requirements.txt" in page
    assert "compilegate run --resume k3v9x0qhw2ta" in page
    assert "Not reached: Gate." in page


@pytest.mark.slow
def test_the_commit_is_noted_and_whether_anything_lay_beside_it(
    repository: Path, tmp_path: Path
) -> None:
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    started_by(tmp_path, "run")
    assert read_origin(tmp_path) == Origin("compilegate run", head, changed=False)
    (repository / "file").write_text("two")
    started_by(tmp_path, "run")
    assert read_origin(tmp_path) == Origin("compilegate run", head, changed=True)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "{",
        "[]",
        '{"command": "x"}',
        '{"command": "x", "commit": "y", "changed": 0, "expected": 3}',
    ],
)
def test_an_origin_that_cannot_be_read_is_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "origin.json").write_text(text)
    assert read_origin(tmp_path) == Origin()
