"""`compilegate schema`: what a workload file may hold, for editors."""

from __future__ import annotations

import click

from compilegate.workload.schema import schema_text


@click.command("schema")
def command() -> None:
    """Print the JSON schema of workload files, by which editors complete and check them.

    \b
      compilegate schema > workloads/workload.schema.json

    Then begin each workload file with `#:schema ./workload.schema.json`, which Taplo and the
    extension Even Better TOML read. `compilegate init` does both.
    """
    click.echo(schema_text(), nl=False)
