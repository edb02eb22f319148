"""What can be wrong with a workload beyond its file: refused by name, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from compilegate.cli.options.project import Project
from compilegate.cli.terminal.errors import RefusalError, found_in
from compilegate.execution.target import Target
from compilegate.pipelines.deployment import local_deployment
from compilegate.pipelines.requests.images import image_faults, processing_faults
from compilegate.pipelines.staging import (
    check_metric_functions,
    gate_tree,
    image_folders,
    image_tags,
    own_code,
    training_code,
)
from compilegate.workload import Workload
from compilegate.workload.feasibility import NO_BASES, Bases, check_feasible


def refuse_infeasible(
    workload: Workload,
    path: Path,
    *,
    region: str | None = None,
    target: Target = Target.SAGEMAKER,
    bases: Bases = NO_BASES,
    instance_type: str | None = None,
) -> None:
    """Refuse arms that cannot run at the target."""
    with found_in(path):
        check_feasible(
            workload, region=region, target=target, bases=bases, instance_type=instance_type
        )


def image_bases(containers: Path, named: Mapping[str, str] | None = None) -> Bases:
    """What each folder of containers/ extends; empty without containers/.

    `named` overrides a folder's base, as the settings do.
    """
    if not containers.is_dir():
        return NO_BASES
    return {name: folder.base for name, folder in image_folders(containers, named).items()}


def refuse_unknown_images(
    workload: Workload, path: Path, containers: Path, named: Mapping[str, str] | None = None
) -> None:
    """Refuse images that are not in containers/; without containers/ refuse nothing.

    `named` overrides a folder's base, as the settings do.
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


def check_program(workload: Workload, path: Path) -> None:
    """Refuse a workload's own program that cannot be staged."""
    with found_in(path):
        training_code(workload.kind, path.parent)


def check_functions(workload: Workload, path: Path, project: Project) -> None:
    """Refuse a workload's own metric functions that the gate could not load."""
    requirements = project.containers / "gate" / "requirements.txt"
    with found_in(path):
        check_metric_functions(
            workload,
            gate_tree(own_code(workload.gate.code, path.parent)),
            requirements if requirements.is_file() else None,
        )
