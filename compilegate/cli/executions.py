"""`compilegate executions`: what was executed here."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import click

from compilegate.cli.options.completing import complete_execution
from compilegate.cli.options.home import home_option
from compilegate.cli.terminal.browser import open_option
from compilegate.cli.terminal.errors import writing
from compilegate.cli.terminal.outcome import show_outcome
from compilegate.cli.terminal.resuming import resume_command
from compilegate.execution.result import ExecutionResult, StepResult
from compilegate.local import LocalExecutor, execution_named, list_executions, pack_execution

COLUMNS = f"{'EXECUTION':<14}  {'PIPELINE':<24}  {'STARTED':<16}  {'SECONDS':>8}  STATUS"


@click.command("executions")
@click.argument("execution", metavar="[ID]", required=False, shell_complete=complete_execution)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@open_option
@click.option(
    "--pack",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Put its evidence, verdict, report and logs into this zip file, and what `compilegate "
    "doctor` says of this machine: to send to somebody. No model, no data.",
)
@home_option
@click.pass_context
def command(  # noqa: PLR0917  one argument for each option
    context: click.Context,
    execution: str | None,
    as_json: bool,
    open_page: bool,
    pack: Path | None,
    home: Path,
) -> None:
    """List executions on this machine, or show one: its steps, verdict, report and model.

    \b
      compilegate executions                 list them
      compilegate executions k3v9x0qhw2ta    show one
      compilegate executions k3v --open      the same, and its report in the browser
      compilegate executions k3v9x0qhw2ta --pack proof.zip

    The beginning of an ID is enough. `compilegate watch` shows one on SageMaker.
    """
    if execution is None:
        if open_page:
            raise click.UsageError("--open: found no ID, allowed: with the ID of one execution")
        if pack is not None:
            raise click.UsageError("--pack: found no ID, allowed: with the ID of one execution")
        listed = list_executions(home)
        if as_json:
            click.echo(json.dumps([_facts(result) for result in listed], indent=2))
        else:
            _show_all(listed, home)
        return
    executor = LocalExecutor(home=home)
    result = executor.read(execution_named(home, execution))
    if pack is not None:
        _pack(result, home, pack)
        return
    if as_json:
        steps = [_step_facts(step) for step in result.steps.values()]
        click.echo(json.dumps({**_facts(result), "steps": steps}, indent=2))
        return
    for step in result.steps.values():
        how = "from the cache" if step.cached else f"{step.seconds:.1f} s"
        click.echo(f"{step.name:<32}  {step.type:<14}  {step.outcome_in_words:<16}  {how}")
    show_outcome(
        executor,
        result,
        resume=resume_command(result.execution_id, context),
        open_page=open_page,
    )


def _pack(result: ExecutionResult, home: Path, target: Path) -> None:
    from compilegate.job.doctor.needs import text_of  # noqa: PLC0415
    from compilegate.job.doctor.program import examine  # noqa: PLC0415  numpy takes time
    from compilegate.job.names import DOCTOR_FILE, DOCTOR_TEXT_FILE  # noqa: PLC0415

    found = examine()
    beside = {
        DOCTOR_FILE: json.dumps(found.document, indent=1),
        DOCTOR_TEXT_FILE: text_of(found),
        "execution.json": json.dumps(
            {**_facts(result), "steps": [_step_facts(step) for step in result.steps.values()]},
            indent=1,
        ),
    }
    with writing(f"--pack: {target}", target.parent):
        names = pack_execution(result, home, target, beside)
    click.echo(f"{target}: {len(names)} files, {target.stat().st_size:,} bytes")


def _facts(result: ExecutionResult) -> dict[str, Any]:
    started = datetime.datetime.fromtimestamp(result.started, datetime.UTC)
    return {
        "execution": result.execution_id,
        "pipeline": result.pipeline_name,
        "status": str(result.status),
        "started": started.isoformat(timespec="seconds"),
        "seconds": None if result.ended is None else round(result.ended - result.started, 1),
        "failure": result.failure,
        "folder": str(result.folder),
    }


def _step_facts(step: StepResult) -> dict[str, Any]:
    why = step.failure
    return {
        "step": step.name,
        "type": step.type,
        "status": step.outcome_in_words,
        "cached": step.cached,
        "seconds": round(step.seconds, 1),
        "failure": None if why is None else why.text,
        "sentence": None if why is None else why.sentence,
        "log": None if step.log is None else str(step.log),
        "last_lines": [] if why is None else list(why.last_lines),
    }


def _show_all(results: list[ExecutionResult], home: Path) -> None:
    if not results:
        click.echo(
            f"Nothing has been executed in {home} yet; start with: compilegate run news-topics"
        )
        return
    click.echo(COLUMNS)
    for result in results:
        started = datetime.datetime.fromtimestamp(result.started).astimezone()
        seconds = "-" if result.ended is None else f"{result.ended - result.started:.1f}"
        click.echo(
            f"{result.execution_id:<14}  {result.pipeline_name:<24}  "
            f"{started:%Y-%m-%d %H:%M}  {seconds:>8}  {result.status}"
        )
