"""What an execution came to: its verdict, its report, its model, and the exit status for it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compilegate.execution import exit_codes
from compilegate.job.files import whole_file, write_text
from compilegate.local import (
    ExecutionResult,
    ExecutionStatus,
    ObjectStore,
    list_groups,
    list_packages,
)

if TYPE_CHECKING:
    from compilegate.report.execution import ExecutionFacts

REPORT = "report.html"
REPORT_MARKDOWN = "report.md"
KEPT = (REPORT, REPORT_MARKDOWN, "verdict.json")


def show_outcome(result: ExecutionResult, home: Path) -> int:
    """Print what came out of the execution; returns the exit status that says it."""
    verdict = verdict_folder(result, home)
    if verdict is None or not (verdict / REPORT).is_file():
        write_reports(_facts(result), result.folder)
    if verdict is not None:
        show_verdict(verdict)
        _keep_reports(verdict, result.folder)
    click.echo(f"\nreport: {result.folder / REPORT}")
    for model in _registered(result, home):
        click.echo(f"model:  {model}")
    return _exit_status(result)


def verdict_folder(result: ExecutionResult, home: Path) -> Path | None:
    """Where the gate's output lies; None when no gate ran, as in a definition from elsewhere."""
    store = ObjectStore(home / "s3")
    for step in result.steps.values():
        outputs = step.properties.get("ProcessingOutputConfig", {}).get("Outputs", [])
        for output in outputs:
            uri = output.get("S3Output", {}).get("S3Uri")
            if uri is not None and (store.path(uri) / "verdict.json").is_file():
                return store.path(uri)
    return None


def show_verdict(folder: Path) -> None:
    """Print the lines of the verdict.json in a folder."""
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415  scipy takes time
    from compilegate.report import summary_lines  # noqa: PLC0415

    click.echo()
    try:
        verdict = Verdict.from_json((folder / "verdict.json").read_bytes())
    except VerdictError as error:
        # A definition from elsewhere may have a verdict of its own kind.
        click.echo(f"{folder / 'verdict.json'} is {error}")
        return
    decision, *rest = summary_lines(verdict)
    click.secho(decision, bold=True)
    for line in rest:
        click.echo(line)


def _keep_reports(verdict: Path, folder: Path) -> None:
    """Copy the report beside the execution's other files, where one looks for it first."""
    for name in KEPT:
        if (verdict / name).is_file():
            with whole_file(folder / name) as part:
                shutil.copyfile(verdict / name, part)


def write_reports(facts: ExecutionFacts, folder: Path) -> None:
    """Write the page of an execution that came to no verdict of this program's own."""
    from compilegate.report.execution import render_execution_html, render_execution_markdown  # noqa: PLC0415  jinja2 takes time

    for name, text in (
        (REPORT, render_execution_html(facts)),
        (REPORT_MARKDOWN, render_execution_markdown(facts)),
    ):
        write_text(folder / name, text)


def _facts(result: ExecutionResult) -> ExecutionFacts:
    from compilegate.report.execution import ExecutionFacts, StepFacts  # noqa: PLC0415

    return ExecutionFacts(
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
                failure=step.failure,
            )
            for step in result.steps.values()
        ],
    )


def _registered(result: ExecutionResult, home: Path) -> list[str]:
    arns = {
        step.properties.get("ModelPackageArn")
        for step in result.steps.values()
        if step.type == "RegisterModel"
    }
    return [
        f"{package.group}/{package.version}, {package.approval_status}"
        for group in list_groups(home)
        for package in list_packages(home, group)
        if package.arn in arns
    ]


def _exit_status(result: ExecutionResult) -> int:
    match result.status:
        case ExecutionStatus.SUCCEEDED | ExecutionStatus.COMPLETED_WITH_FAILURES:
            return exit_codes.DECIDED
        case ExecutionStatus.STOPPED:
            _explain(result, f"stopped; go on with: --resume --execution {result.execution_id}")
            return exit_codes.INTERRUPTED
        case _ if result.failed_by == "fail-step":
            _explain(result, result.failure or "a Fail step ended it")
            return exit_codes.GATE_FAILED
        case _:
            for step in result.steps.values():
                if step.failure is not None:
                    _explain(result, f"{step.name}: {step.failure}")
            return exit_codes.STEP_FAILED


def _explain(result: ExecutionResult, text: str) -> None:
    click.secho("\nerror: ", fg="red", bold=True, nl=False, err=True)
    click.echo(f"execution {result.execution_id}: {text}", err=True)
