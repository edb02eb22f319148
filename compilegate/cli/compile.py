"""`compilegate compile`: the pipeline definition that SageMaker gets."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.cli.options.account import settings_option
from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.named import named_place_options
from compilegate.cli.options.project import Project, load_workload, project_options, settings_here
from compilegate.cli.terminal.errors import writing
from compilegate.cli.workload.checks import image_bases, never_passing, refuse_infeasible
from compilegate.cli.workload.definition import (
    compiled,
    place_by_name,
    place_locally,
    put_objects,
)
from compilegate.document.writing import compact
from compilegate.job.files import write_text


@click.command("compile")
@click.argument("workload", metavar="NAME|FILE", shell_complete=complete_workload)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the definition to this file instead of printing it.",
)
@click.option(
    "--objects",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --account: write what the definition needs in S3 to FOLDER/BUCKET.",
)
@named_place_options
@settings_option
@project_options
def command(  # noqa: PLR0917  one argument for each option
    workload: str,
    output: Path | None,
    objects: Path | None,
    account: str | None,
    region: str | None,
    key: str | None,
    settings: Path,
    workloads: Path,
    containers: Path,
) -> None:
    """Print a workload's SageMaker pipeline definition.

    \b
      compilegate compile news-topics -o definition.json
      compilegate compile news-topics --account 123456789012 --objects upload -o definition.json

    The same workload gives the same bytes in every run and on every machine; AWS is not called.
    Every step's request is checked against the service's own shapes. The account's names (bucket,
    roles, images) are stand-ins that a local run understands. With --account they are those that
    infra/settings.toml gives them in that account, for a definition that other tools than
    `make deploy` deploy; `compilegate policies` prints the roles that go with it. Where
    no candidate of such a design can pass the gate, a note says so.
    """
    declared, path = load_workload(workload, workloads)
    bases = image_bases(containers, settings_here().images.base)
    project = Project(workloads=workloads, containers=containers)
    if account is None:
        for option, given in (("objects", objects), ("region", region), ("key", key)):
            if given is not None:
                raise click.UsageError(f"--{option}: found it alone, allowed: with --account")
        refuse_infeasible(declared, path, bases=bases)
        deployment, placement = place_locally(declared, path, project)
    else:
        from compilegate.account.named.given import given_place  # noqa: PLC0415  boto3 takes time

        place = given_place(settings, account=account, region=region, key=key)
        refuse_infeasible(declared, path, region=place.region, bases=bases)
        deployment, placement = place_by_name(declared, path, project, place)
    for told in never_passing(declared, path):
        click.echo(f"note: {told}", err=True)
    definition = compiled(declared, deployment, placement.sources)
    if objects is not None:
        put_objects(placement, objects)
    if output is None:
        click.echo(definition, nl=False)
        return
    with writing(f"--output: {output}", output.parent):
        write_text(output, definition)
    deployed = len(compact(definition).encode())
    click.echo(f"{output}: {len(definition.encode()):,} bytes, {deployed:,} as deployed", err=True)
