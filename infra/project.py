"""What is deployed: the settings, the workloads and the images, read from their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from compilegate.account.settings import (
    SETTINGS_FILE,
    Names,
    Settings,
    SettingsError,
    read_settings,
)
from compilegate.built_in import IMAGE_FOLDERS
from compilegate.datasets import cache_folder
from compilegate.pipelines.requests.images import used_images
from compilegate.pipelines.staging import ImageFolder, image_folders
from compilegate.posture.contract import FUNCTION_KIND
from compilegate.workload import Served, Workload, find_workload, read_workload
from compilegate.workload.parameters import APPROVAL

LONGEST_FUNCTION, LONGEST_GROUP = 64, 63
"""How long the name of a Lambda function may be, and that of a model package group and of all that
SageMaker serves models with. The names of EventBridge's rules end in as many characters as that of
the function, and may be as long."""
WAITING = "PendingManualApproval"
RELEASE = "--99999-20260101000000"
"""The longest that is put behind a workload's name for what its models are served with."""


@dataclass(frozen=True, kw_only=True)
class DeclaredWorkload:
    """A workload and its file, beside which its data may lie."""

    workload: Workload
    path: Path


@dataclass(frozen=True, kw_only=True)
class Project:
    """Everything that the stacks are made from."""

    settings: Settings
    workloads: Sequence[DeclaredWorkload]
    images: Mapping[str, ImageFolder]
    """The folders that become images, by name."""
    folder: Path
    """The folder that holds `workloads/` and `containers/`."""
    definitions: Path = field(default_factory=lambda: cache_folder() / "definitions")
    """Where compiled definitions are kept, for synths and for the command line."""

    @cached_property
    def names(self) -> Names:
        return Names(self.settings)

    @property
    def built_images(self) -> Mapping[str, ImageFolder]:
        """The folders whose images the deployed workloads use: only these are built."""
        used = used_images(declared.workload for declared in self.workloads)
        return {name: image for name, image in self.images.items() if name in used}


def read_project(folder: Path | None = None) -> Project:
    """Read `infra/settings.toml` and the workloads that it names, or all if it names none.

    The folder is by default the current one, in which the CDK CLI starts an app. Where it has no
    `containers/`, the images that come along with Compilegate are taken.

    Raises SettingsError, WorkloadError and ImageFolderError, with one sentence for each
    problem.
    """
    folder = folder or Path.cwd()
    settings = read_settings(folder / SETTINGS_FILE)
    declared = folder / "workloads"
    paths = (
        [find_workload(name, declared) for name in settings.workloads]
        if settings.workloads
        else sorted(declared.glob("*.toml"))
    )
    workloads = [DeclaredWorkload(workload=read_workload(path), path=path) for path in paths]
    _groups_differ(workloads)
    _names_fit(Names(settings), workloads)
    _endpoints_fit(settings, workloads)
    _approval_is_left_to_people(settings, workloads)
    return Project(
        settings=settings,
        workloads=workloads,
        folder=folder,
        images=image_folders(containers_of(folder), settings.images.base, settings.images.pinned),
    )


def containers_of(folder: Path) -> Path:
    """The project's own images; those that come along with Compilegate where it has none."""
    own = folder / "containers"
    return own if any(own.glob("*/Dockerfile")) else IMAGE_FOLDERS


def _names_fit(names: Names, workloads: Sequence[DeclaredWorkload]) -> None:
    """Refuse names that, with the project's in front, are longer than a service allows."""
    problems = []
    for declared in workloads:
        workload = declared.workload
        for key, kind, name, most in (
            ("name", "function", names.function(workload.name, FUNCTION_KIND), LONGEST_FUNCTION),
            ("registry.group", "group", names.model_package_group(workload), LONGEST_GROUP),
            *(
                [("name", "models", f"{names.pipeline(workload.name)}{RELEASE}", LONGEST_GROUP)]
                if deploys(workload)
                else []
            ),
        ):
            if len(name) > most:
                problems.append(
                    f"{declared.path}: {key}: the name of its {kind}, {name}, has {len(name)} "
                    f"characters, allowed: {most}, including the project's name"
                )
    if problems:
        raise SettingsError(*problems)


def deploys(workload: Workload) -> Served | None:
    """How approving one of its models deploys it; None where it does not."""
    serving = workload.serving
    return serving if serving is not None and serving.deploy != "none" else None


def _endpoints_fit(settings: Settings, workloads: Sequence[DeclaredWorkload]) -> None:
    """Refuse serverless endpoints in a VPC, which SageMaker does."""
    if not settings.network.in_vpc and not settings.network.isolation:
        return
    problems = [
        f"{declared.path}: serving.deploy: found 'serverless', which runs in no network of your "
        f"own, and {SETTINGS_FILE} has [network], allowed: 'none', 'real-time', 'batch'"
        for declared in workloads
        if declared.workload.serving is not None
        and declared.workload.serving.deploy == "serverless"
    ]
    if problems:
        raise SettingsError(*problems)


def _approval_is_left_to_people(settings: Settings, workloads: Sequence[DeclaredWorkload]) -> None:
    """Refuse executions that could not register their model."""
    if not settings.approval.trusted:
        return
    problems = []
    for declared in workloads:
        workload = declared.workload
        scheduled = workload.schedule.parameters.given if workload.schedule is not None else {}
        for key, status in (
            ("registry.approval", workload.registry.approval),
            (f"schedule.parameters.{APPROVAL}", scheduled.get(APPROVAL, WAITING)),
        ):
            if status != WAITING:
                problems.append(
                    f"{declared.path}: {key}: found {status!r}, allowed: {WAITING!r}, since "
                    f"{SETTINGS_FILE} names under [approval] who approves models"
                )
    if problems:
        raise SettingsError(*problems)


def _groups_differ(workloads: Sequence[DeclaredWorkload]) -> None:
    """Each stack makes its workload's model package group, so two cannot share one."""
    owners: dict[str, str] = {}
    for declared in workloads:
        workload = declared.workload
        group = workload.model_package_group
        if group in owners:
            raise SettingsError(
                f"{declared.path}: registry.group: found {group!r}, which "
                f"{owners[group]} already uses, allowed: one group for each workload"
            )
        owners[group] = workload.name
