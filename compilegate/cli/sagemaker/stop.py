"""`compilegate stop`: stop an execution on SageMaker."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.account.executions.calls import stop_execution
from compilegate.cli.options.account import settings_option
from compilegate.cli.sagemaker.watch import find_execution


@click.command("stop")
@click.argument("execution", metavar="ARN|NAME")
@settings_option
def command(execution: str, settings: Path) -> None:
    """Stop an execution on SageMaker and its jobs.

    \b
      compilegate stop news-topics                 the latest of this workload
      compilegate stop arn:aws:sagemaker:...       this one, of any pipeline

    A workload's NAME stands for the latest execution of its pipeline. The results of steps
    that have succeeded stay in the step cache.
    """
    session, arn = find_execution(execution, settings)
    stop_execution(session, arn)
    click.echo(f"stopping {arn}; watch it end with: compilegate watch {arn}")
