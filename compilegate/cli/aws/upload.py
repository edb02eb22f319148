"""`compilegate aws upload`: the raw data of workloads, into the bucket."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.account.object_store import stage_raw_data
from compilegate.cli.options import Project, completing, pass_project
from compilegate.cli.places import Account, open_account
from compilegate.cli.terminal.errors import refusing_os_errors
from compilegate.datasets import cache_folder, raw_data
from compilegate.pipelines.staging import raw_data_uri
from compilegate.workload import Workload


@click.command("upload")
@click.argument(
    "workload", metavar="[NAME|FILE]", required=False, shell_complete=completing("workload")
)
@click.option(
    "--all", "all_of_them", is_flag=True, help="Every workload that is deployed from here."
)
@pass_project
def command(project: Project, workload: str | None, *, all_of_them: bool) -> None:
    """Upload a workload's raw data to the project's bucket unless it is already there.

    \b
      compilegate aws upload news-topics     prints its URI, s3://BUCKET/...
      compilegate aws upload --all           as `make deploy` does before it changes a pipeline

    The key contains the data's digest, so changed data gets a new key and existing data is always
    the right one. `compilegate aws submit` does the same before it starts an execution.
    """
    if all_of_them is (workload is not None):
        raise click.UsageError("NAME: allowed is either a workload or --all")
    account = open_account(project)
    declared = (
        [project.load(workload)]
        if workload is not None
        else project.deployed_workloads(account.names.settings)
    )
    for each, path in declared:
        click.echo(stage_data(account, each, path))


def stage_data(account: Account, workload: Workload, path: Path) -> str:
    """Upload the raw data of a workload, unless they are there; returns their URI."""
    with refusing_os_errors():
        data = raw_data(workload.data, path.parent)
        uri = raw_data_uri(workload, data, account.bucket)
        stage_raw_data(
            account.session, data, uri, cache_folder(), lambda line: click.echo(line, err=True)
        )
    return uri
