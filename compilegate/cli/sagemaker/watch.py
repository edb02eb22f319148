"""`compilegate watch`: follow an execution on SageMaker."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from compilegate.account.executions.calls import latest_executions
from compilegate.account.executions.executor import SageMakerExecutor
from compilegate.account.executions.state import is_execution_arn, region_of
from compilegate.account.session import AwsSession, open_session
from compilegate.cli.options.account import open_account, poll_option, settings_option
from compilegate.cli.options.home import home_option
from compilegate.cli.terminal.outcome import show_outcome
from compilegate.cli.terminal.progress import progress_shown
from compilegate.execution import exit_codes
from compilegate.execution.looking import POLL_SECONDS


@click.command("watch")
@click.argument("execution", metavar="ARN|NAME")
@poll_option(POLL_SECONDS)
@home_option
@settings_option
def command(execution: str, poll_seconds: float, home: Path, settings: Path) -> None:
    """Follow an execution on SageMaker, running or ended, to its verdict.

    \b
      compilegate watch news-topics                the latest of this workload
      compilegate watch arn:aws:sagemaker:...      this one, of any pipeline

    A workload's NAME stands for the latest execution of its pipeline. The exit status is that of a
    local run. Ctrl-C stops the watching, not the execution.
    """
    session, arn = find_execution(execution, settings)
    executor = SageMakerExecutor(session=session, home=home, poll_seconds=poll_seconds)
    raise SystemExit(watch_execution(executor, arn))


def watch_execution(executor: SageMakerExecutor, arn: str) -> int:
    """Print what happens until the execution ends, then its result; returns the exit status.

    Ctrl-C stops the watching, not the execution.
    """
    try:
        with _leaving_on_termination():
            with progress_shown() as listener:
                result = executor.follow(arn, listener)
            return show_outcome(executor, result)
    except KeyboardInterrupt:
        click.echo(
            f"\nno longer watching; the execution continues\n"
            f"  watch it again:  compilegate watch {arn}\n"
            f"  stop it:         compilegate stop {arn}",
            err=True,
        )
        return exit_codes.INTERRUPTED


@contextmanager
def _leaving_on_termination() -> Iterator[None]:
    """Treat a termination signal like Ctrl-C, as when CI cancels the job that waits."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def find_execution(arn_or_workload: str, settings: Path) -> tuple[AwsSession, str]:
    """The execution that an argument names, and a session for its account."""
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
