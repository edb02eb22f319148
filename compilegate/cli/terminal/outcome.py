"""An execution's result: its verdict, its report, its models, and the exit status."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.cli.terminal.errors import show_error
from compilegate.execution.executor import Executor
from compilegate.execution.outcome import outcome_of
from compilegate.execution.result import ExecutionResult
from compilegate.job.files import write_text
from compilegate.job.names import REPORT_FILE, REPORT_MARKDOWN_FILE, VERDICT_FILE


def show_outcome(executor: Executor, result: ExecutionResult) -> int:
    """Print the execution's result; returns the exit status."""
    if executor.fetch_verdict(result):
        _show_verdict(result.folder / VERDICT_FILE)
    if not (result.folder / REPORT_FILE).is_file():
        _write_page(result)
    click.echo(f"\nreport: {result.folder / REPORT_FILE}")
    for model in executor.models(result):
        click.echo(f"model:  {model}")
    outcome = outcome_of(result, executor.when_stopped(result))
    for problem in outcome.problems:
        click.echo(err=True)
        show_error(f"execution {result.execution_id}: {problem}")
    return outcome.exit_status


def _show_verdict(path: Path) -> None:
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415  scipy takes time
    from compilegate.report import summary_lines  # noqa: PLC0415

    click.echo()
    try:
        verdict = Verdict.from_json(path.read_bytes())
    except VerdictError as error:
        # A definition from elsewhere may write another kind of verdict.
        click.echo(f"{path} is {error}")
        return
    decision, *rest = summary_lines(verdict)
    click.secho(decision, bold=True)
    for line in rest:
        click.echo(line)


def _write_page(result: ExecutionResult) -> None:
    """Write the report of an execution without a verdict, or with one that has no report."""
    from compilegate.report.execution import (  # noqa: PLC0415  jinja2 takes time
        ExecutionFacts,
        StepFacts,
        render_execution_html,
        render_execution_markdown,
    )

    facts = ExecutionFacts(
        execution_id=result.execution_id,
        pipeline=result.pipeline_name,
        status=result.status,
        failure=result.failure,
        steps=[
            StepFacts(
                name=step.name,
                type=step.type,
                status=step.status,
                seconds=step.seconds,
                cached=step.cached,
                metrics={
                    metric["MetricName"]: float(metric["Value"])
                    for metric in step.properties.get("FinalMetricDataList", [])
                },
                failure=() if step.failure is None else step.failure.lines,
            )
            for step in result.steps.values()
        ],
    )
    write_text(result.folder / REPORT_FILE, render_execution_html(facts))
    write_text(result.folder / REPORT_MARKDOWN_FILE, render_execution_markdown(facts))
