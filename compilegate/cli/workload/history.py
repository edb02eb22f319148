"""`compilegate history`: a workload over its executions, or all workloads in a line each."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click

from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.home import home_option
from compilegate.cli.terminal.errors import writing
from compilegate.cli.terminal.tables import aligned
from compilegate.cli.workload.posture_record import records_in
from compilegate.execution.result import ExecutionResult
from compilegate.gate.verdict import Verdict, VerdictError
from compilegate.history.rows import Row, line_of, rows_of
from compilegate.history.telling import (
    COLUMNS,
    PORTFOLIO,
    as_csv,
    as_json,
    as_page,
    line_cells,
    row_cells,
)
from compilegate.job.files import write_text
from compilegate.job.names import VERDICT_FILE
from compilegate.local import LocalExecutor, list_executions
from compilegate.posture.function.handler import now
from compilegate.posture.records.keeping import current


@click.command("history")
@click.argument("workload", metavar="[NAME]", required=False, shell_complete=complete_workload)
@click.option("--all", "show_all", is_flag=True, help="All workloads, in a line each.")
@click.option("--json", "as_document", is_flag=True, help="Print JSON, for programs.")
@click.option(
    "--csv",
    "table",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a line for each execution and metric.",
)
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the table as a page.",
)
@home_option
def command(  # noqa: PLR0917  one argument for each option
    workload: str | None,
    show_all: bool,
    as_document: bool,
    table: Path | None,
    page: Path | None,
    home: Path,
) -> None:
    """Show a workload over its executions on this machine: metrics, speed-up, posture, money.

    \b
      compilegate history news-topics                      a line for each execution
      compilegate history news-topics --html history.html  the same as a page
      compilegate history --all                            the portfolio, a line for each workload

    Change points are marked: another posture, another registered arm, other code, images or data,
    and what a person decided.
    """
    if (workload is None) is not show_all:
        raise click.UsageError("found neither or both, allowed: a NAME, or --all")
    if show_all and (table is not None or page is not None):
        raise click.UsageError("--csv, --html: found --all as well, allowed: with a NAME")
    by_name = _executed(home)
    if show_all:
        lines = [line_of(name, _rows(name, found, home)) for name, found in sorted(by_name.items())]
        if as_document:
            click.echo(as_json(lines))
        elif lines:
            _show([PORTFOLIO, *map(line_cells, lines)])
        else:
            click.echo(f"Nothing has been executed in {home} yet")
        return
    name = str(workload)
    if name not in by_name:
        there = ", ".join(sorted(by_name)) or "none"
        raise click.UsageError(f"{name} was never executed in {home}; executed were: {there}")
    rows = _rows(name, by_name[name], home)
    if table is not None or page is not None:
        _write(name, rows, table, page)
    if as_document:
        click.echo(as_json(rows))
    elif table is None and page is None:
        _show([COLUMNS, *map(row_cells, rows)])


def _write(name: str, rows: list[Row], table: Path | None, page: Path | None) -> None:
    for path, text in ((table, as_csv(rows)), (page, as_page(name, rows))):
        if path is not None:
            with writing(str(path), path.parent):
                write_text(path, text)
            click.echo(f"{path}: {len(rows)} executions", err=True)


def _show(cells: list[tuple[str, ...]]) -> None:
    for line in aligned(cells):
        click.echo(line)


def _executed(home: Path) -> dict[str, list[ExecutionResult]]:
    found: dict[str, list[ExecutionResult]] = defaultdict(list)
    for result in list_executions(home):
        found[result.pipeline_name].append(result)
    return found


def _rows(name: str, executions: list[ExecutionResult], home: Path) -> list[Row]:
    executor = LocalExecutor(home=home)
    record, _ = current(records_in(home), name, when=now(), who="history")
    return rows_of([(one, _verdict(executor, one)) for one in executions], record)


def _verdict(executor: LocalExecutor, result: ExecutionResult) -> Verdict | None:
    """The execution's verdict; None where it has none of Compilegate's kind."""
    if not executor.fetch_verdict(result):
        return None
    try:
        return Verdict.from_json((result.folder / VERDICT_FILE).read_bytes())
    except (OSError, VerdictError):
        return None
