"""`compilegate executions`: what was executed here."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from pipelines.cli.home import home_option
from pipelines.cli.outcome import show_outcome
from pipelines.cli.refusal import refusing
from pipelines.local import ExecutionError, ExecutionResult, list_executions, read_execution

COLUMNS = f"{'EXECUTION':<14}  {'PIPELINE':<24}  {'STARTED':<16}  {'SECONDS':>8}  STATUS"


@click.command("executions")
@click.argument("execution", metavar="[ID]", required=False)
@home_option
def command(execution: str | None, home: Path) -> None:
    """List executions, or show one: its steps, its verdict, its report, its model."""
    with refusing(ExecutionError):
        if execution is None:
            _show_all(list_executions(home), home)
            return
        result = read_execution(home, execution)
    for step in result.steps.values():
        how = "from the cache" if step.cached else f"{step.seconds:.1f} s"
        click.echo(f"{step.name:<32}  {step.type:<14}  {step.status:<12}  {how}")
    show_outcome(result, home)


def _show_all(results: list[ExecutionResult], home: Path) -> None:
    if not results:
        click.echo(f"Nothing was executed in {home} yet: compilegate run news-topics")
        return
    click.echo(COLUMNS)
    for result in results:
        started = datetime.datetime.fromtimestamp(result.started).astimezone()
        seconds = "-" if result.ended is None else f"{result.ended - result.started:.1f}"
        click.echo(
            f"{result.execution_id:<14}  {result.pipeline_name:<24}  "
            f"{started:%Y-%m-%d %H:%M}  {seconds:>8}  {result.status}"
        )
