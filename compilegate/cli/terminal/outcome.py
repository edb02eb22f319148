"""An execution's result: its verdict, its report, its models, and the exit status.

Three lines come last: what was decided and why, what it saves, and where to look.
"""

from __future__ import annotations

import re
import shlex
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from compilegate.cli.terminal.errors import show_error
from compilegate.cli.terminal.pages import complete_page, has_page, write_page
from compilegate.execution import exit_codes
from compilegate.execution.executor import Executor
from compilegate.execution.outcome import outcome_of
from compilegate.execution.result import ExecutionResult
from compilegate.job.names import REPORT_FILE, VERDICT_FILE

RESUMABLE = (exit_codes.STEP_FAILED, exit_codes.INTERRUPTED)
"""The exit statuses after which an execution here can go on."""


def resume_command(execution_id: str, context: click.Context) -> str:
    """The command that continues an execution, whole: it can be copied as it stands. An execution
    keeps its options, so only those of the project are given again, if the command line had them.
    """
    root, again = context.find_root(), context.command.name == "run"
    words = ["compilegate", *(context.command_path.split()[1:] if again else ["run"])]
    words += ["--resume", execution_id]
    for option in root.command.params:
        name = str(option.name)
        if root.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = root.params[name]
            words += option.opts[:1] if value is True else [option.opts[0], str(value)]
    return shlex.join(words)


def show_page(page: Path) -> None:
    """Open a page in the browser that $BROWSER names, or in the desktop's."""
    if not webbrowser.open(page.resolve().as_uri()):
        click.echo(f"--open: no browser was found; set BROWSER, or open {page}", err=True)


def show_outcome(
    executor: Executor,
    result: ExecutionResult,
    *,
    resume: str | None = None,
    open_page: bool = False,
) -> int:
    """Print the execution's result; returns the exit status.

    `resume` is the command that continues it, where there is one.
    """
    outcome = outcome_of(result, executor.when_stopped(result))
    for problem in outcome.problems:
        click.echo(err=True)
        show_error(f"execution {result.execution_id}: {_with_local_paths(problem, result)}")
    status = outcome.exit_status
    models = executor.models(result)
    judged = executor.fetch_verdict(result)
    if judged:
        _show_verdict(result.folder / VERDICT_FILE, models)
        status = exit_codes.GATE_FAILED if status == exit_codes.FAIL_STEP else status
    else:
        click.echo()
        registered = f"; registered: {'; '.join(models)}" if models else ""
        _show("decided", f"nothing, for the execution has no verdict{registered}")
    page = result.folder / REPORT_FILE
    if not (judged and (complete_page(result) or has_page(result.folder))):
        write_page(result, resume if status in RESUMABLE else None)
    _show("report", str(page))
    if resume is not None and status in RESUMABLE:
        _show("resume", resume)
    if open_page:
        show_page(page)
    return status


def _with_local_paths(text: str, result: ExecutionResult) -> str:
    """The text with the file here in place of each object that lies in the home."""
    store = result.folder.parents[1] / "s3"

    def local(uri: re.Match[str]) -> str:
        path = store / uri[1]
        return str(path) if path.exists() else uri[0]

    return re.sub(r"s3://([^\s;,)'\"]*[^\s;,)'\".])", local, text)


def _show_verdict(path: Path, models: Sequence[str]) -> None:
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415  scipy takes time
    from compilegate.report import decided, saves, summary_lines  # noqa: PLC0415

    click.echo()
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
