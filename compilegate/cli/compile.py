"""`compilegate compile`: the pipeline definition that SageMaker gets."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.project import Project, load_workload, project_options, settings_here
from compilegate.cli.terminal.errors import writing
from compilegate.cli.workload.checks import image_bases, never_passing, refuse_infeasible
from compilegate.cli.workload.definition import compiled, place_locally
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
@project_options
def command(workload: str, output: Path | None, workloads: Path, containers: Path) -> None:
    """Print a workload's SageMaker pipeline definition.

    \b
      compilegate compile news-topics -o definition.json

    The same workload gives the same bytes in every run and on every machine; AWS is not called.
    Every step's request is checked against the service's own shapes. The account's names (bucket,
    roles, images) are stand-ins that a local run understands. Where no candidate of such a design
    can pass the gate, a note says so.
    """
    declared, path = load_workload(workload, workloads)
    bases = image_bases(containers, settings_here().images.base)
    refuse_infeasible(declared, path, bases=bases)
    for told in never_passing(declared, path):
        click.echo(f"note: {told}", err=True)
    deployment, placement = place_locally(
        declared, path, Project(workloads=workloads, containers=containers)
    )
    definition = compiled(declared, deployment, placement.sources)
    if output is None:
        click.echo(definition, nl=False)
        return
    with writing(f"--output: {output}", output.parent):
        write_text(output, definition)
    deployed = len(compact(definition).encode())
    click.echo(f"{output}: {len(definition.encode()):,} bytes, {deployed:,} as deployed", err=True)
