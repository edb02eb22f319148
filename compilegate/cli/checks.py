"""What can be wrong with a workload beyond its file: refused by name, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from compilegate.cli.options import Project
from compilegate.cli.terminal.errors import RefusalError, found_in
from compilegate.datasets import Declared, misfits
from compilegate.datasets.inspection import validation_rows
from compilegate.errors import CompilegateError
from compilegate.execution.target import Target
from compilegate.pipelines.images import image_folders
from compilegate.pipelines.staging.requirements import check_metric_functions, unbuilt_requirements
from compilegate.pipelines.staging.source_trees import gate_tree, own_code
from compilegate.workload import Workload
from compilegate.workload.feasibility import NO_BASES, Bases, check_feasible, findings

if TYPE_CHECKING:
    from compilegate.gate.forecast import Design


def refuse_all_at_once(*checks: Callable[[], None]) -> None:
    """Make every check, and raise what all of them found."""
    found: list[str] = []
    for check in checks:
        try:
            check()
        except CompilegateError as error:
            found += error.problems
    if found:
        raise RefusalError(*dict.fromkeys(found))


def check_data(workload: Workload, path: Path) -> None:
    """Refuse data on this machine whose header or first rows do not fit the workload."""
    documents = workload.kind.document_shapes is not None
    steps = [arm.global_batch_size for arm in workload.arms.values()]
    if found := data_problems(workload.data, path, documents=documents, largest_step=max(steps)):
        raise RefusalError(*found)


def data_problems(
    data: Declared, path: Path, *, documents: bool, largest_step: int = 1
) -> list[str]:
    """What does not fit in data on this machine. `path` is the workload's file, which is named
    before a key of it; other problems name a file of the data."""
    found = misfits(data, path.parent, documents=documents, largest_step=largest_step)
    return [f"{path}: {each}" if each.startswith("data.") else each for each in found]


def refuse_infeasible(
    workload: Workload,
    path: Path,
    *,
    region: str | None = None,
    bases: Bases = NO_BASES,
    instance_type: str | None = None,
) -> None:
    """Refuse arms that cannot run on SageMaker."""
    with found_in(path):
        check_feasible(workload, region=region, bases=bases, instance_type=instance_type)


def cannot_run_here(workload: Workload) -> dict[str, list[str]]:
    """Why arms cannot run on this machine, by arm."""
    found: dict[str, list[str]] = {}
    for each in findings(workload, target=Target.HERE):
        if each.refused:
            found.setdefault(each.arm, []).append(each.sentence)
    return found


def image_bases(containers: Path, named: Mapping[str, str] | None = None) -> Bases:
    """What each folder of containers/ extends; `named` overrides its base, as the settings do."""
    return {name: folder.base for name, folder in image_folders(containers, named).items()}


def check_requirements(workload: Workload, path: Path, containers: Path) -> None:
    """Refuse images without what a program's requirements.txt asks for, where the workload says
    that it is in them."""
    with found_in(path):
        if faults := list(unbuilt_requirements(workload, path.parent, containers)):
            raise RefusalError(*faults)


def check_functions(workload: Workload, path: Path, project: Project) -> None:
    """Refuse a workload's own metric functions that the gate could not load."""
    requirements = project.containers / "gate" / "requirements.txt"
    with found_in(path):
        check_metric_functions(
            workload,
            gate_tree(own_code(workload.gate.code, path.parent)),
            requirements if requirements.is_file() else None,
        )


def design_of(workload: Workload, path: Path) -> Design:
    """What the gate's forecasts need to know of an experiment."""
    from compilegate.gate.forecast import Design  # noqa: PLC0415  scipy takes time

    return Design(
        seeds=len(workload.seeds),
        candidates=len(workload.candidates),
        examples=validation_rows(workload.data, path.parent),
    )
