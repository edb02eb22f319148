"""What can be wrong with a workload beyond its file: refused by name, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from compilegate.cli.options import Project
from compilegate.cli.terminal.errors import RefusalError, found_in
from compilegate.datasets import misfits
from compilegate.datasets.inspection import validation_rows
from compilegate.errors import CompilegateError
from compilegate.execution.target import Target
from compilegate.pipelines.deployment import local_deployment
from compilegate.pipelines.requests.images import image_faults
from compilegate.pipelines.staging import (
    check_metric_functions,
    gate_tree,
    image_folders,
    image_tags,
    imported_modules,
    own_code,
    source_folder_of,
    training_code,
    unbuilt_requirements,
)
from compilegate.workload import Workload, read_data_table
from compilegate.workload.feasibility import NO_BASES, Bases, check_feasible

if TYPE_CHECKING:
    from compilegate.advice import Obstacle


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
    found = misfits(
        workload.data, path.parent, documents=documents, largest_step=max(steps, default=1)
    )
    if found:
        raise RefusalError(*_named(found, path))


def data_problems_of_a_wrong_file(path: Path) -> list[str]:
    """What does not fit in the data of a workload's file that is refused for something else."""
    table = read_data_table(path)
    if table is None:
        return []
    data, documents = table
    return _named(misfits(data, path.parent, documents=documents, largest_step=1), path)


def _named(problems: list[str], path: Path) -> list[str]:
    """With the workload's file before what names its key; others name a file of the data."""
    return [f"{path}: {each}" if each.startswith("data.") else each for each in problems]


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
    """What each folder of containers/ extends.

    `named` overrides a folder's base, as the settings do.
    """
    return {name: folder.base for name, folder in image_folders(containers, named).items()}


def refuse_unknown_images(
    workload: Workload, path: Path, containers: Path, named: Mapping[str, str] | None = None
) -> None:
    """Refuse images that are not in containers/.

    `named` overrides a folder's base, as the settings do.
    """
    deployment = local_deployment(image_tags(containers, named))
    faults = list(image_faults(deployment, workload))
    if faults:
        raise RefusalError(*faults).within(path)


def check_program(workload: Workload, path: Path) -> None:
    """Refuse a workload's own program that cannot be staged."""
    with found_in(path):
        training_code(workload.kind, path.parent)


def check_requirements(workload: Workload, path: Path, containers: Path) -> None:
    """Refuse images without what a program's requirements.txt asks for, where the workload says
    that it is in them."""
    with found_in(path):
        faults = list(unbuilt_requirements(workload, path.parent, containers))
    if faults:
        raise RefusalError(*faults).within(path)


def program_libraries(workload: Workload, path: Path) -> frozenset[str]:
    """What a workload's own training script imports; none for the built-in program."""
    if workload.kind.source_folder is None:
        return frozenset()
    files = training_code(workload.kind, path.parent).files
    own = {name: source for name, source in files.items() if not name.startswith("compilegate/")}
    return imported_modules(own, workload.kind.scripts["program.entry"])


def check_functions(workload: Workload, path: Path, project: Project) -> None:
    """Refuse a workload's own metric functions that the gate could not load."""
    requirements = project.containers / "gate" / "requirements.txt"
    with found_in(path):
        check_metric_functions(
            workload,
            gate_tree(own_code(workload.gate.code, path.parent)),
            requirements if requirements.is_file() else None,
        )


def never_passing(workload: Workload, path: Path) -> tuple[str, ...]:
    """Why no candidate of this workload can pass, however equal: known before anything trains."""
    from compilegate.gate import forecast  # noqa: PLC0415  scipy takes time

    design = forecast.Design(
        seeds=len(workload.seeds),
        candidates=len(workload.candidates),
        examples=validation_rows(workload.data, path.parent),
    )
    return tuple(f"gate.{told}" for told in forecast.never_passing(workload.gate, design))


def obstacles(workload: Workload, path: Path) -> tuple[Obstacle, ...]:
    """What `compilegate check` finds in the program's folder, the gravest first; nothing where the
    program cannot be read. Compilegate's own program has none. Nothing is imported for it."""
    root = source_folder_of(workload, path)
    return () if root is None or not root.is_dir() else _found_in(root)


@lru_cache(maxsize=512)
def _found_in(root: Path) -> tuple[Obstacle, ...]:
    """Once for each folder, which workloads may share."""
    from compilegate.advice import Obstacle  # noqa: PLC0415
    from compilegate.check.checking import check_paths  # noqa: PLC0415  the rules take time

    found = sorted(check_paths([root]).findings, key=lambda each: -each.severity)
    return tuple(
        Obstacle(
            rule=each.rule,
            severity=each.severity.word,
            place=each.place.removeprefix(f"{root.parent}/"),
            message=each.message,
            fix=each.fix,
            compilers=each.compilers,
        )
        for each in found
    )
