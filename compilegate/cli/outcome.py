"""An execution's result: its verdict, its page, its models, and the exit status.

Three lines come last: what was decided and why, what it saves, and where to look. Slow to import
(scipy, jinja2), so commands import it when they have something to show.
"""

from __future__ import annotations

import re
import shutil
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from compilegate.cli.printing import show_error, writing
from compilegate.cli.provenance import read_provenance
from compilegate.execution import exit_codes
from compilegate.execution.executor import Executor
from compilegate.execution.result import ExecutionResult, StepResult, exit_status_of
from compilegate.execution.status import UNSUCCESSFUL
from compilegate.gate.observations import Observations, ObservationsError
from compilegate.gate.verdict import Verdict, VerdictError
from compilegate.job.contract import (
    OBSERVATIONS_FILE,
    REPORT_FILE,
    REPORT_MARKDOWN_FILE,
    REPROS_FOLDER,
    VERDICT_FILE,
)
from compilegate.job.files import write_bytes, write_text
from compilegate.posture import contract
from compilegate.report import (
    About,
    ExecutionFacts,
    StepFacts,
    decided,
    render_execution_html,
    render_execution_markdown,
    render_html,
    render_junit,
    render_markdown,
    saves,
    summary_lines,
)
from compilegate.workload.parameters import DATA

JUNIT_FILE = "junit.xml"


def show_outcome(
    executor: Executor,
    result: ExecutionResult,
    *,
    resume: str | None = None,
    open_page: bool = False,
) -> int:
    """Print the execution's result; returns the exit status. `resume` continues it."""
    status, problems = exit_status_of(result, executor.when_stopped(result))
    if status not in {exit_codes.STEP_FAILED, exit_codes.INTERRUPTED}:
        resume = None  # it has ended for good
    for problem in problems:
        click.echo(err=True)
        show_error(f"execution {result.execution_id}: {_with_local_paths(problem, result)}")
    models = executor.models(result)
    page = result.folder / REPORT_FILE
    click.echo()
    if executor.fetch_verdict(result):
        status = exit_codes.GATE_FAILED if status == exit_codes.FAIL_STEP else status
        _show_verdict(result.folder / VERDICT_FILE, models)
        drawn = complete_page(result, models) or page.is_file()
    else:
        registered = f"; registered: {'; '.join(models)}" if models else ""
        _show("decided", f"{_without_verdict(result)}{registered}")
        drawn = False
    if not drawn:
        write_page(result, resume)
    _show("report", str(page))
    if resume is not None:
        _show("resume", resume)
    if open_page and not webbrowser.open(page.resolve().as_uri()):
        click.echo(f"--open: no browser was found; set BROWSER, or open {page}", err=True)
    return status


def _without_verdict(result: ExecutionResult) -> str:
    """What is decided where no gate ran: by the posture, where nothing is new."""
    for step in result.steps.values():
        answers = step.properties.get("OutputParameters", {})
        if answers.get(contract.ARMS) == contract.NOTHING:
            return str(answers[contract.REASON])
    return "the execution has no verdict"


def _with_local_paths(text: str, result: ExecutionResult) -> str:
    """The text with the file here in place of each object that lies in the home."""
    store = result.folder.parents[1] / "s3"

    def local(uri: re.Match[str]) -> str:
        path = store / uri[1]
        return str(path) if path.exists() else uri[0]

    return re.sub(r"s3://([^\s;,)'\"]*[^\s;,)'\".])", local, text)


def _show_verdict(path: Path, models: Sequence[str]) -> None:
    try:
        verdict = Verdict.from_json(path.read_bytes())
    except VerdictError as error:
        # A definition from elsewhere may write another kind of verdict.
        click.echo(f"{path} is {error}")
        return
    for line in summary_lines(verdict)[1:]:
        click.echo(line)
    click.echo()
    _show("decided", click.style(decided(verdict, models), bold=True))
    _show("saves", saves(verdict))


def _show(what: str, text: str) -> None:
    click.echo(f"{f'{what}:':<8} {text}")


def complete_page(result: ExecutionResult, models: Sequence[str] = ()) -> bool:
    """Write the page of a verdict again, with the execution's date, command and models.

    The gate's own job knows none of these. Returns whether there was a verdict to draw: a
    definition from elsewhere may write another kind, whose page is left as it is.
    """
    folder, verdict = result.folder, _verdict(result.folder)
    if verdict is None:
        return False
    try:
        observations = Observations.from_json((folder / OBSERVATIONS_FILE).read_bytes())
    except (OSError, ObservationsError):
        return False
    about = replace(_about(result), models=tuple(models))
    write_text(folder / REPORT_FILE, render_html(verdict, observations, about))
    write_text(folder / REPORT_MARKDOWN_FILE, render_markdown(verdict, observations, about))
    return True


def write_page(result: ExecutionResult, resume: str | None) -> None:
    """Write the report of an execution without a verdict, or with one that has no report. `resume`
    continues it."""
    facts = ExecutionFacts(
        pipeline=result.pipeline_name,
        status=result.status,
        failure=result.failure,
        steps=[_step(step) for step in result.steps.values()],
        about=_about(result),
        resume=resume,
    )
    write_text(result.folder / REPORT_FILE, render_execution_html(facts))
    write_text(result.folder / REPORT_MARKDOWN_FILE, render_execution_markdown(facts))


def copy_reports(result: ExecutionResult, output: Path) -> None:
    """Copy verdict and reports to a folder, and write the verdict's reasons there as JUnit XML."""
    with writing(f"--output {output}"):
        output.mkdir(parents=True, exist_ok=True)
        for name in (REPORT_FILE, REPORT_MARKDOWN_FILE, VERDICT_FILE):
            if (result.folder / name).is_file():
                write_bytes(output / name, (result.folder / name).read_bytes())
        repros = result.folder / REPROS_FOLDER
        if repros.is_dir():
            shutil.copytree(repros, output / REPROS_FOLDER, dirs_exist_ok=True)
        if (verdict := _verdict(result.folder)) is not None:
            write_text(output / JUNIT_FILE, render_junit(verdict))


def _verdict(folder: Path) -> Verdict | None:
    """What the gate wrote; None before that, or where another gate wrote its own kind."""
    try:
        return Verdict.from_json((folder / VERDICT_FILE).read_bytes())
    except (OSError, VerdictError):
        return None


def _about(result: ExecutionResult) -> About:
    """What is known of an execution."""
    data = result.parameters.get(DATA)
    return About(
        execution_id=result.execution_id,
        started=result.started,
        seconds=None if result.ended is None else result.ended - result.started,
        data=None if data is None else _with_local_paths(str(data), result),
        **read_provenance(result.folder),
    )


def _step(step: StepResult) -> StepFacts:
    failure = step.failure
    unread = () if failure is None or failure.unread is None else (f"({failure.unread})",)
    unexplained = str(step.status) if step.status in UNSUCCESSFUL else None
    return StepFacts(
        name=step.name,
        type=step.type,
        status=step.outcome_in_words,
        seconds=step.seconds,
        cached=step.cached,
        metrics={
            metric["MetricName"]: float(metric["Value"])
            for metric in step.properties.get("FinalMetricDataList", [])
        },
        failure=unexplained if failure is None else failure.sentence or unexplained,
        last_lines=() if failure is None else (*failure.last_lines, *unread),
        log=None if failure is None or failure.log is None else str(failure.log),
    )
