"""`compilegate history`: a workload over its executions, or all workloads in a line each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click

from compilegate.access.layout import verdicts_prefix
from compilegate.account.deployed import read_outputs
from compilegate.account.errors import NotDeployedError, asking
from compilegate.account.verdicts import past_executions
from compilegate.cli.options.account import Account, open_account, settings_option
from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.home import home_option
from compilegate.cli.options.project import workloads_option
from compilegate.cli.terminal.errors import writing
from compilegate.cli.terminal.tables import aligned
from compilegate.cli.workload.posture_record import records_in
from compilegate.execution.result import ExecutionResult
from compilegate.gate.verdict import Verdict, VerdictError
from compilegate.history.rows import Past, Row, line_of, rows_of
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
from compilegate.posture.records.dynamodb import DynamoRecords
from compilegate.posture.records.keeping import current

_TABLE = "PostureTableName"
"""An output of the stack of a workload with a posture."""


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
@click.option("--deployed", is_flag=True, help="Executions in the account, not those in HOME.")
@settings_option
@workloads_option
@home_option
def command(  # noqa: PLR0917  one argument for each option
    workload: str | None,
    show_all: bool,
    as_document: bool,
    table: Path | None,
    page: Path | None,
    deployed: bool,
    settings: Path,
    workloads: Path,
    home: Path,
) -> None:
    """Show a workload over its executions: metrics, speed-up, posture, money.

    \b
      compilegate history news-topics                      a line for each execution
      compilegate history news-topics --html history.html  the same as a page
      compilegate history --all                            the portfolio, a line for each workload
      compilegate history news-topics --deployed           the same of the deployed workload

    Change points are marked: another posture, another registered arm, other code, images or data,
    and what a person decided. With --deployed it goes by the verdicts that the workload's bucket
    keeps, and by the posture's record in the account.
    """
    if (workload is None) is not show_all:
        raise click.UsageError("found neither or both, allowed: a NAME, or --all")
    if show_all and (table is not None or page is not None):
        raise click.UsageError("--csv, --html: found --all as well, allowed: with a NAME")
    place = _Deployed(open_account(settings), workloads) if deployed else _Here(home)
    if show_all:
        by_name = {name: place.rows(name) for name in place.names()}
        lines = [line_of(name, rows) for name, rows in by_name.items() if rows]
        if as_document:
            click.echo(as_json(lines))
        elif lines:
            _show([PORTFOLIO, *map(line_cells, lines)])
        else:
            click.echo(f"Nothing has been executed in {place.called} yet")
        return
    name = str(workload)
    rows = place.rows(name)
    if not rows:
        there = "" if deployed else f"; executed were: {', '.join(place.names()) or 'none'}"
        raise click.UsageError(f"{name} was never executed in {place.called}{there}")
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
            told = f"{len(rows)} execution{'' if len(rows) == 1 else 's'}"
            click.echo(f"{path}: {told}", err=True)


def _show(cells: list[tuple[str, ...]]) -> None:
    for line in aligned(cells):
        click.echo(line)


@dataclass(frozen=True)
class _Here:
    """Executions on this machine."""

    home: Path

    @property
    def called(self) -> str:
        return str(self.home)

    @cached_property
    def _executions(self) -> list[ExecutionResult]:
        return list(list_executions(self.home))

    def names(self) -> list[str]:
        return sorted({one.pipeline_name for one in self._executions})

    def rows(self, name: str) -> list[Row]:
        executor = LocalExecutor(home=self.home)
        record, _ = current(records_in(self.home), name, when=now(), who="history")
        past = [
            Past(
                execution=one.execution_id,
                started=one.started,
                status=str(one.status),
                verdict=_fetched(executor, one),
            )
            for one in self._executions
            if one.pipeline_name == name
        ]
        return rows_of(past, record)


@dataclass(frozen=True)
class _Deployed:
    """Executions in the account, by what is kept of them there."""

    account: Account
    workloads: Path

    @property
    def called(self) -> str:
        return f"account {self.account.session.account}, {self.account.session.region}"

    def names(self) -> list[str]:
        """Those that the settings name, or else all; without those that are not deployed."""
        declared = self.account.names.settings.workloads
        named = declared or [path.stem for path in self.workloads.glob("*.toml")]
        return sorted(name for name in named if self._is_deployed(name))

    def rows(self, name: str) -> list[Row]:
        session, names = self.account.session, self.account.names
        outputs = read_outputs(session, names.workload_stack(name))
        bucket = read_outputs(session, names.foundation_stack)["BucketName"]
        verdicts = f"s3://{bucket}/{verdicts_prefix(name).rstrip('/')}"
        record = None
        if _TABLE in outputs.values:
            records = DynamoRecords(session.client("dynamodb"), outputs[_TABLE])
            with asking(f"read the posture of {name}"):
                record, _ = current(records, name, when=now(), who="history")
        past = [
            Past(
                execution=one.execution,
                started=one.started,
                status=one.status,
                verdict=None if one.verdict is None else _read(one.verdict),
            )
            for one in past_executions(session, outputs["PipelineName"], verdicts)
        ]
        return rows_of(past, record)

    def _is_deployed(self, name: str) -> bool:
        try:
            read_outputs(self.account.session, self.account.names.workload_stack(name))
        except NotDeployedError:
            return False
        return True


def _fetched(executor: LocalExecutor, result: ExecutionResult) -> Verdict | None:
    """The verdict of an execution on this machine; None where it has none."""
    if not executor.fetch_verdict(result):
        return None
    try:
        return _read((result.folder / VERDICT_FILE).read_bytes())
    except OSError:
        return None


def _read(text: bytes) -> Verdict | None:
    """None where it is not of Compilegate's kind, or of another release."""
    try:
        return Verdict.from_json(text)
    except VerdictError:
        return None
