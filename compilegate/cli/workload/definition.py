"""From a workload to the definition that a local execution runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from compilegate.cli.options.project import Project, require_containers
from compilegate.cli.terminal.errors import refusing_os_errors
from compilegate.cli.workload.checks import check_requirements
from compilegate.datasets import cache_folder, raw_data
from compilegate.pipelines.deployment import Deployment, Sources, local_deployment
from compilegate.pipelines.kept import definition_of
from compilegate.pipelines.staging import (
    Placement,
    image_folders,
    image_tags,
    placement_of,
)
from compilegate.workload import Workload

if TYPE_CHECKING:
    from compilegate.account.named import NamedPlace


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


def place_by_name(
    workload: Workload, path: Path, project: Project, place: NamedPlace
) -> tuple[Deployment, Placement]:
    """Where an execution in an account that is only named finds its files."""
    require_containers(project.containers)
    check_requirements(workload, path, project.containers)
    images = place.names.settings.images
    folders = image_folders(project.containers, images.base, images.pinned)
    deployment = place.deployment(workload, {name: each.tag for name, each in folders.items()})
    with refusing_os_errors():
        data = raw_data(workload.data, path.parent)
        return deployment, placement_of(workload, deployment, data, path.parent)


def put_objects(placement: Placement, folder: Path) -> None:
    """Write all that a definition needs in S3 as `FOLDER/BUCKET/KEY`, to be uploaded."""
    from compilegate.local import ObjectStore  # noqa: PLC0415  not for a definition alone

    with refusing_os_errors():
        folder.mkdir(parents=True, exist_ok=True)
        store = ObjectStore(folder.resolve())
        placement.put(store, cache_folder(), lambda line: click.echo(line, err=True))
    bucket = placement.sources.training_archive.removeprefix("s3://").partition("/")[0]
    click.echo(f"upload it with: aws s3 sync {folder / bucket} s3://{bucket}", err=True)


def compiled(workload: Workload, deployment: Deployment, sources: Sources) -> str:
    """The definition in indented JSON, from the cache or compiled now."""
    return definition_of(
        workload,
        deployment,
        sources,
        folder=cache_folder() / "definitions",
        told=lambda line: click.echo(line, err=True),
    )
