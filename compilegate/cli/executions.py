"""`compilegate executions`: what was executed here, or in the account; a workload over time."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from compilegate.cli import options
from compilegate.cli.options import (
    AGE,
    BYTES,
    FILE,
    Project,
    completing,
    pass_project,
    refuse_given,
)
from compilegate.cli.printing import counted, print_json, print_table, writing
from compilegate.cli.provenance import resume_command
from compilegate.execution.result import ExecutionResult
from compilegate.local import LocalExecutor, execution_named, list_executions, pack_execution

if TYPE_CHECKING:
    from compilegate.cli.places import Place


@click.command("executions")
@click.argument(
    "subject",
    metavar="[ID|NAME]",
    required=False,
    shell_complete=completing("execution", "workload"),
)
@click.option("--all", "everything", is_flag=True, help="All workloads, in a line each.")
@options.as_json
@options.open_page
@click.option(
    "--output",
    "-o",
    type=FILE,
    help="With an ID: a .zip to share, with evidence, verdict, report and logs; no model, no data.",
)
@click.option("--prune", "pruning", is_flag=True, help="Delete executions to free space.")
@click.option(
    "--older-than", type=AGE, help="With --prune: those that ended longer ago, such as 30d or 12h."
)
@click.option(
    "--larger-than", type=BYTES, help="With --prune: those that take more space, such as 2GB."
)
@click.option("--dry-run", is_flag=True, help="With --prune: list them, and delete nothing.")
@pass_project
def command(
    project: Project,
    subject: str | None,
    *,
    everything: bool,
    as_json: bool,
    open_page: bool,
    output: Path | None,
    pruning: bool,
    older_than: int | None,
    larger_than: int | None,
    dry_run: bool,
) -> None:
    """List executions; show one, or a workload over all of its executions.

    \b
      compilegate executions                 list those on this machine
      compilegate executions k3v9x0qhw2ta    show one: its steps, verdict, report and model
      compilegate executions k3v --output proof.zip
      compilegate executions news-topics     metrics, speed-up, posture and money over time
      compilegate executions --all           the portfolio, a line for each workload
      compilegate executions --prune --older-than 30d --dry-run

    The beginning of an ID is enough. A workload's changes are marked: of posture, registered arm,
    code, images and data, and by a person. With --aws it goes by the verdicts and the posture's
    record in the account. Pruning keeps what is registered, what the step cache serves, what runs.
    """
    if not pruning:
        refuse_given({"--older-than", "--larger-than", "--dry-run"}, "needs --prune")
    elif older_than is None and larger_than is None:
        raise click.UsageError("--prune needs --older-than, --larger-than or both")
    if pruning or everything:
        why = f"does not go with {'--prune' if pruning else '--all'}"
        refuse_given({"ID", "--open", "--output"}, why)
    if subject is None:
        refuse_given({"--open", "--output"}, "needs the ID of one execution")
    if pruning:
        _prune(project, older_than, larger_than, dry_run=dry_run, as_json=as_json)
        return
    if subject is None and not project.aws and not everything:
        _list(project.home, as_json=as_json)
        return
    from compilegate.cli.places import place_of  # noqa: PLC0415  boto3 takes time

    place = place_of(project)
    if subject is None:
        _show_portfolio(place, as_json=as_json)
    elif project.aws or _is_workload(project, place, subject):
        refuse_given({"--open", "--output"}, "needs the ID of one execution")
        _show_workload(place, subject, as_json=as_json)
    else:
        _show_one(project.home, subject, output, as_json=as_json, open_page=open_page)


def _is_workload(project: Project, place: Place, subject: str) -> bool:
    """Whether a workload is meant: one that is declared, or was, and not the beginning of an ID."""
    if (project.workloads / f"{subject}.toml").is_file():
        return True
    beginning = f"{escape(subject)}*/execution.json"
    ids = any((project.home / "executions").glob(beginning))
    return not ids and subject in place.executed()


def _prune(
    project: Project,
    older_than: int | None,
    larger_than: int | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    if project.aws:
        raise click.UsageError("--prune works on this machine; the bucket has lifecycle rules")
    from compilegate.local import prune  # noqa: PLC0415

    found = prune(project.home, older_than=older_than, larger_than=larger_than, dry_run=dry_run)
    if as_json:
        print_json([{**_facts(one.result), "bytes": one.size} for one in found])
        return
    print_table(
        (one.result.execution_id, one.result.pipeline_name, f"{one.size / 1e6:,.1f} MB")
        for one in found
    )
    total = f"{sum(one.size for one in found) / 1e6:,.1f} MB"
    click.echo(f"{counted(found, 'execution')}, {total} {'would be freed' if dry_run else 'freed'}")


def _show_portfolio(place: Place, *, as_json: bool) -> None:
    from compilegate.history import rows as history  # noqa: PLC0415  the gate takes time

    found = {name: place.rows(name) for name in place.executed()}
    by_name = {name: rows for name, rows in found.items() if rows}
    if as_json:
        print_json(
            [
                {"workload": name, "executions": len(rows), **asdict(history.summary(rows))}
                for name, rows in by_name.items()
            ]
        )
    elif by_name:
        cells = (history.summary_cells(name, rows) for name, rows in by_name.items())
        print_table([history.PORTFOLIO, *cells])
    else:
        click.echo(f"Nothing has been executed in {place} yet")


def _show_workload(place: Place, name: str, *, as_json: bool) -> None:
    from compilegate.history import rows as history  # noqa: PLC0415  the gate takes time

    rows = place.rows(name)
    if not rows:
        raise click.UsageError(f"{name} was never executed in {place}")
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    print_table([history.COLUMNS, *map(history.row_cells, rows)])
    saved = history.saved_so_far(rows)
    if saved:
        click.echo(saved)


def _show_one(
    home: Path, beginning: str, output: Path | None, *, as_json: bool, open_page: bool
) -> None:
    executor = LocalExecutor(home=home)
    result = executor.read(execution_named(home, beginning))
    if output is not None:
        if output.suffix != ".zip":
            raise click.UsageError(f"--output is {output}, expected a .zip file")
        _pack(result, home, output)
        return
    if as_json:
        print_json(_all_facts(result))
        return
    print_table(
        (
            step.name,
            step.type,
            step.outcome_in_words,
            "from the cache" if step.cached else f"{step.seconds:.1f} s",
        )
        for step in result.steps.values()
    )
    from compilegate.cli.outcome import show_outcome  # noqa: PLC0415  slow

    resume = resume_command(result.execution_id)
    show_outcome(executor, result, resume=resume, open_page=open_page)


def _pack(result: ExecutionResult, home: Path, target: Path) -> None:
    from compilegate.job.contract import DOCTOR_FILE, DOCTOR_TEXT_FILE  # noqa: PLC0415
    from compilegate.job.doctor.needs import text_of  # noqa: PLC0415
    from compilegate.job.doctor.program import examine  # noqa: PLC0415  numpy takes time

    found = examine()
    beside = {
        DOCTOR_FILE: json.dumps(found.document, indent=1),
        DOCTOR_TEXT_FILE: text_of(found),
        "execution.json": json.dumps(_all_facts(result), indent=1),
    }
    with writing(f"--output: {target}", target.parent):
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


def _all_facts(result: ExecutionResult) -> dict[str, Any]:
    return {
        **_facts(result),
        "steps": [
            {
                "step": step.name,
                "type": step.type,
                "status": step.outcome_in_words,
                "cached": step.cached,
                "seconds": round(step.seconds, 1),
                "failure": step.failure and step.failure.text,
                "sentence": step.failure and step.failure.sentence,
                "log": step.log and str(step.log),
                "last_lines": list(step.failure.last_lines) if step.failure else [],
            }
            for step in result.steps.values()
        ],
    }


def _list(home: Path, *, as_json: bool) -> None:
    results = list_executions(home)
    if as_json:
        print_json([_facts(result) for result in results])
        return
    if not results:
        click.echo(
            f"Nothing has been executed in {home} yet; start with: compilegate run news-topics"
        )
        return
    rows = [("EXECUTION", "PIPELINE", "STARTED", "SECONDS", "STATUS")]
    for result in results:
        started = datetime.datetime.fromtimestamp(result.started).astimezone()
        seconds = "-" if result.ended is None else f"{result.ended - result.started:.1f}"
        what = (result.execution_id, result.pipeline_name, f"{started:%Y-%m-%d %H:%M}")
        rows.append((*what, seconds, str(result.status)))
    print_table(rows)
