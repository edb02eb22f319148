"""Where a project's parts lie, and how a name on the command line becomes a workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from compilegate.account.settings import Settings, read_settings
from compilegate.built_in import IMAGE_FOLDERS
from compilegate.cli.terminal.refusal import RefusalError, found_in, refusing_os_errors
from compilegate.datasets import cache_folder, raw_data
from compilegate.execution.target import Target
from compilegate.pipelines.deployment import Deployment, Sources, local_deployment
from compilegate.pipelines.kept import definition_of
from compilegate.pipelines.requests.images import image_faults, processing_faults
from compilegate.pipelines.staging import (
    StagingPlan,
    check_metric_functions,
    gate_tree,
    image_folders,
    image_tags,
    own_code,
    plan_staging,
    training_code,
)
from compilegate.workload import Workload, find_workload, read_workload
from compilegate.workload.feasibility import NO_BASES, Bases, check_feasible

Command = TypeVar("Command", bound=Callable[..., Any])

SETTINGS = Path("infra") / "settings.toml"


@dataclass(frozen=True, kw_only=True)
class Project:
    """The folders that commands read."""

    workloads: Path
    containers: Path


def workloads_option(command: Command) -> Command:
    """Add `--workloads` to a command."""
    return click.option(
        "--workloads",
        type=click.Path(path_type=Path),
        default="workloads",
        show_default=True,
        help="Folder in which a NAME is looked up as NAME.toml.",
    )(command)


def containers_option(command: Command) -> Command:
    """Add `--containers` to a command."""
    return click.option(
        "--containers",
        type=click.Path(path_type=Path),
        default=_containers_here,
        help="Folder with one folder for each image. By default containers/, or the images that "
        "come with Compilegate where this folder has none.",
    )(command)


def _containers_here() -> Path:
    own = Path("containers")
    return own if any(own.glob("*/requirements.txt")) else IMAGE_FOLDERS


def project_options(command: Command) -> Command:
    """Add `--workloads` and `--containers` to a command."""
    return workloads_option(containers_option(command))


def settings_here() -> Settings:
    """Those of the project in this folder; the defaults where it has none."""
    return read_settings(SETTINGS)


def load_workload(name_or_path: str, workloads: Path) -> tuple[Workload, Path]:
    """The checked workload and its file; refuses what is wrong with it."""
    path = find_workload(name_or_path, workloads)
    return read_workload(path), path


def refuse_infeasible(
    workload: Workload,
    path: Path,
    *,
    region: str | None = None,
    target: Target = Target.SAGEMAKER,
    bases: Bases = NO_BASES,
    instance_type: str | None = None,
) -> None:
    """Refuse arms that cannot run, at the target."""
    with found_in(path):
        check_feasible(
            workload, region=region, target=target, bases=bases, instance_type=instance_type
        )


def image_bases(containers: Path, named: Mapping[str, str] | None = None) -> Bases:
    """What each folder of containers/ extends; none where there is no containers/.

    `named` has another base by folder, as the settings do.
    """
    if not containers.is_dir():
        return NO_BASES
    return {name: folder.base for name, folder in image_folders(containers, named).items()}


def refuse_unknown_images(
    workload: Workload, path: Path, containers: Path, named: Mapping[str, str] | None = None
) -> None:
    """Refuse images that are no folder of containers/; without containers/, none.

    `named` has another base by folder, as the settings do.
    """
    if not containers.is_dir():
        return
    deployment = local_deployment(image_tags(containers, named))
    faults = [
        *image_faults(deployment, workload.arms),
        *processing_faults(deployment, workload.kind),
    ]
    if faults:
        raise RefusalError(*faults).within(path)


def plan_locally(
    workload: Workload, path: Path, project: Project
) -> tuple[Deployment, StagingPlan]:
    """Where a local execution of the workload finds everything; nothing is fetched yet."""
    if not project.containers.is_dir():
        raise click.UsageError(
            f"--containers: {project.containers} is not a folder, allowed: "
            "one that holds a folder for each image"
        )
    deployment = local_deployment(image_tags(project.containers))
    needed = {workload.kind.processing_image[1], "gate"}
    missing = needed - deployment.images.keys()
    if missing:
        raise click.UsageError(
            f"--containers: {project.containers} has no image folder "
            f"{' and no '.join(sorted(missing))} with a requirements.txt"
        )
    with refusing_os_errors():
        data = raw_data(workload.data, path.parent)
        return deployment, plan_staging(workload, deployment, data, path.parent)


def compiled(workload: Workload, deployment: Deployment, sources: Sources) -> str:
    """The definition in indented JSON, as it was kept or compiled now."""
    return definition_of(
        workload,
        deployment,
        sources,
        folder=cache_folder() / "definitions",
        told=lambda line: click.echo(line, err=True),
    )


def check_program(workload: Workload, path: Path) -> None:
    """Refuse a training program of the workload's own that cannot be taken along."""
    with found_in(path):
        training_code(workload, path.parent)


def check_functions(workload: Workload, path: Path, project: Project) -> None:
    """Refuse metric functions of the workload's own that the gate could not load."""
    requirements = project.containers / "gate" / "requirements.txt"
    with found_in(path):
        check_metric_functions(
            workload,
            gate_tree(own_code(workload.gate.code, path.parent)),
            requirements if requirements.is_file() else None,
        )
