"""`compilegate stage`: upload the raw data of workloads to the bucket."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.account.deployed import read_outputs
from compilegate.account.object_store import stage_raw_data
from compilegate.cli.options.account import Account, open_account, settings_option
from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.project import deployed_workloads, load_workload, workloads_option
from compilegate.cli.terminal.errors import refusing_os_errors
from compilegate.datasets import cache_folder, raw_data
from compilegate.pipelines.staging import raw_data_uri
from compilegate.workload import Workload


@click.command("stage")
@click.argument("workload", metavar="[NAME|FILE]", required=False, shell_complete=complete_workload)
@click.option(
    "--all", "all_of_them", is_flag=True, help="Every workload that is deployed from here."
)
@settings_option
@workloads_option
def command(workload: str | None, all_of_them: bool, settings: Path, workloads: Path) -> None:
    """Upload a workload's raw data to the project's bucket unless it is already there.

    \b
      compilegate stage news-topics     prints its URI, s3://BUCKET/...
      compilegate stage --all           as `make deploy` does before it changes a pipeline

    The key contains the data's digest, so changed data gets a new key and existing data is always
    the right one. `submit` does the same before it starts an execution.
    """
    if all_of_them == (workload is not None):
        raise click.UsageError("found neither a workload nor --all, or both; allowed: one of them")
    account = open_account(settings)
    if workload is not None:
        click.echo(stage_data(account, workload, workloads))
        return
    for declared, path in deployed_workloads(account.names.settings, workloads):
        click.echo(_staged(account, declared, path))


def stage_data(account: Account, workload: str, workloads: Path) -> str:
    """Stage the raw data of a workload in this checkout; returns its URI."""
    declared, path = load_workload(workload, workloads)
    return _staged(account, declared, path)


def _staged(account: Account, declared: Workload, path: Path) -> str:
    with refusing_os_errors():
        bucket = read_outputs(account.session, account.names.foundation_stack)["BucketName"]
        data = raw_data(declared.data, path.parent)
        uri = raw_data_uri(declared, data, bucket)
        stage_raw_data(
            account.session, data, uri, cache_folder(), lambda line: click.echo(line, err=True)
        )
    return uri
