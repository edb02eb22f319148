"""What an execution on SageMaker came to; the counterpart of `outcome.py`."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.account.errors import AwsError, asking
from compilegate.account.executions.logs import last_lines
from compilegate.account.executions.state import ExecutionState, StepState
from compilegate.account.executions.verdict import fetch_verdict
from compilegate.account.session import AwsSession
from compilegate.cli.terminal.outcome import REPORT, REPORT_MARKDOWN, show_verdict, write_reports
from compilegate.execution import exit_codes


def show_aws_outcome(session: AwsSession, state: ExecutionState, home: Path) -> int:
    """Fetch and print what came out of an ended execution; returns the exit status that says it.

    Its files come to HOME/aws/EXECUTION. Raises AwsError.
    """
    folder = home / "aws" / state.execution_id
    if fetch_verdict(session, state, folder, (REPORT, REPORT_MARKDOWN)):
        show_verdict(folder)
    if not (folder / REPORT).is_file():
        _write_page(state, folder)
    click.echo(f"\nreport: {folder / REPORT}")
    for step in state.steps:
        if step.model_package is not None and step.status == "Succeeded":
            click.echo(f"model:  {_registered(session, step.model_package)}")
    return _exit_status(session, state)


def _write_page(state: ExecutionState, folder: Path) -> None:
    from compilegate.report.execution import ExecutionFacts, StepFacts  # noqa: PLC0415  jinja2

    steps = [
        StepFacts(
            name=step.name,
            type=step.type,
            status=step.status,
            seconds=step.seconds,
            cached=step.cached_from is not None,
            metrics={},
            failure=step.failure,
        )
        for step in state.steps
    ]
    facts = ExecutionFacts(
        execution_id=state.execution_id,
        pipeline=state.pipeline,
        status=state.status,
        failure=state.failure,
        steps=steps,
    )
    write_reports(facts, folder)


def _registered(session: AwsSession, arn: str) -> str:
    name = "/".join(arn.split("/")[-2:])
    try:
        with asking(f"read the model package {name}"):
            package = session.client("sagemaker").describe_model_package(ModelPackageName=arn)
    except AwsError as error:
        # The verdict is known, and that a model was registered: its status does not undo that.
        return f"{name} ({error})"
    return f"{name}, {package.get('ModelApprovalStatus', 'without an approval status')}"


def _exit_status(session: AwsSession, state: ExecutionState) -> int:
    failed = [step for step in state.steps if step.status == "Failed"]
    reached = next((step for step in failed if step.type == "Fail"), None)
    match state.status:
        case "Succeeded" | "CompletedWithFailures":
            return exit_codes.DECIDED
        case "Stopped":
            _explain(
                state,
                "stopped, by somebody or because an older one was running: executions do not "
                "overlap; what had succeeded is in the cache of the next one",
            )
            return exit_codes.INTERRUPTED
        case _ if reached is not None:
            _explain(state, reached.failure or f"the Fail step {reached.name} was reached")
            return exit_codes.GATE_FAILED
        case _:
            for step in failed:
                _explain(state, _failure(session, step))
            if not failed:
                _explain(state, state.failure or "failed, and SageMaker gives no reason")
            return exit_codes.STEP_FAILED


def _failure(session: AwsSession, step: StepState) -> str:
    """Why a step failed, where its log is, and the log's last lines."""
    lines = [f"{step.name}: {step.failure or 'failed, and SageMaker gives no reason'}"]
    if step.job is not None:
        if step.job.log is not None:
            lines.append(f"log: {step.job.log}")
        try:
            lines += [f"  {line}" for line in last_lines(session, step.job)]
        except AwsError as error:
            # The failure is what matters; that its log is out of reach comes second.
            lines.append(f"({error})")
    return "\n".join(lines)


def _explain(state: ExecutionState, text: str) -> None:
    click.secho("\nerror: ", fg="red", bold=True, nl=False, err=True)
    click.echo(f"execution {state.execution_id}: {text}", err=True)
