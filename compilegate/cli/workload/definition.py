"""From a workload to the definition that a local execution runs."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.cli.options.project import Project, require_containers
from compilegate.cli.terminal.errors import refusing_os_errors
from compilegate.cli.workload.checks import check_requirements
from compilegate.datasets import cache_folder, raw_data
from compilegate.pipelines.deployment import Deployment, Sources, local_deployment
from compilegate.pipelines.kept import definition_of
from compilegate.pipelines.staging import (
    Placement,
    image_tags,
    placement_of,
)
from compilegate.workload import Workload


def place_locally(workload: Workload, path: Path, project: Project) -> tuple[Deployment, Placement]:
    """Where a local execution of the workload finds its files; nothing is fetched yet."""
    require_containers(project.containers)
    deployment = local_deployment(image_tags(project.containers))
    needed = {workload.kind.processing_image[1], "gate"}
    missing = needed - deployment.images.keys()
    if missing:
        raise click.UsageError(
            f"--containers: {project.containers} has no image folder "
            f"{' and no '.join(sorted(missing))} with a requirements.txt"
        )
    check_requirements(workload, path, project.containers)
    with refusing_os_errors():
        data = raw_data(workload.data, path.parent)
        return deployment, placement_of(workload, deployment, data, path.parent)


def compiled(workload: Workload, deployment: Deployment, sources: Sources) -> str:
    """The definition in indented JSON, from the cache or compiled now."""
    return definition_of(
        workload,
        deployment,
        sources,
        folder=cache_folder() / "definitions",
        told=lambda line: click.echo(line, err=True),
    )
