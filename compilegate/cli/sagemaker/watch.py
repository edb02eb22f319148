"""`compilegate watch`: follow an execution on SageMaker that somebody has started."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.account.executions.executions import latest_executions
from compilegate.account.executions.state import is_execution_arn, region_of
from compilegate.account.session import AwsSession, open_session
from compilegate.cli.options.account import open_account, settings_option
from compilegate.cli.options.home import home_option
from compilegate.cli.terminal.following import poll_option, show_execution


@click.command("watch")
@click.argument("execution", metavar="ARN|NAME")
@poll_option
@home_option
@settings_option
def command(execution: str, poll_seconds: float, home: Path, settings: Path) -> None:
    """Follow an execution on SageMaker, running or ended, to its verdict.

    \b
      compilegate watch news-topics                the latest of this workload
      compilegate watch arn:aws:sagemaker:...      this one, of any pipeline

    NAME is a workload, and stands for the latest execution of its pipeline. The exit status is
    that of a local run. Ctrl-C leaves the execution to itself.
    """
    session, arn = find_execution(execution, settings)
    raise SystemExit(show_execution(session, arn, home, poll_seconds))


def find_execution(arn_or_workload: str, settings: Path) -> tuple[AwsSession, str]:
    """The execution that an argument names, and a session that reaches it."""
    if is_execution_arn(arn_or_workload):
        return open_session(region_of(arn_or_workload)), arn_or_workload
    if ":" in arn_or_workload or "/" in arn_or_workload:
        raise click.UsageError(
            f"found {arn_or_workload!r}, allowed: a workload's name, or the ARN of an execution "
            "(arn:aws:sagemaker:REGION:ACCOUNT:pipeline/PIPELINE/execution/ID)"
        )
    account = open_account(settings)
    pipeline = account.names.pipeline(arn_or_workload)
    latest = latest_executions(account.session, pipeline, most=1)
    if not latest:
        raise click.UsageError(
            f"{pipeline} has no execution yet; start one with: compilegate submit {arn_or_workload}"
        )
    return account.session, latest[0]
