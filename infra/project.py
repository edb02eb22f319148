"""What is deployed: the settings, the workloads and the images, read from their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compilegate.account.registry import WAITING
from compilegate.account.settings import (
    SETTINGS_FILE,
    Names,
    Settings,
    SettingsError,
    read_settings,
)
from compilegate.built_in import IMAGE_FOLDERS
from compilegate.pipelines.images import ImageFolder, image_folders, used_images
from compilegate.posture.contract import FUNCTION_KIND
from compilegate.workload import Served, Workload, find_workload, read_workload
from compilegate.workload.parameters import APPROVAL

LONGEST_FUNCTION, LONGEST_GROUP = 64, 63
"""How long the name of a Lambda function may be, and that of a model package group and of all that
SageMaker serves models with. The names of EventBridge's rules end in as many characters as that of
the function, and may be as long."""
BATCH = "batch"
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
    if problems := list(_faults(settings, workloads)):
        raise SettingsError(*problems)
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


def deploys(workload: Workload) -> Served | None:
    """How approving one of its models deploys it; None where it does not."""
    serving = workload.serving
    return serving if serving is not None and serving.deploy != "none" else None


def endpoint_of(workload: Workload) -> Served | None:
    """How its endpoint is served; None where approving a model changes none."""
    serving = deploys(workload)
    return serving if serving is not None and serving.deploy != BATCH else None


def _faults(settings: Settings, workloads: Sequence[DeclaredWorkload]) -> Iterator[str]:
    """A sentence for each thing that services, or the settings, do not allow a workload."""
    in_own_network = settings.network.in_vpc or settings.network.isolation
    names, owners = Names(settings), dict[str, str]()
    for declared in workloads:
        workload, path = declared.workload, declared.path
        group, own = names.model_package_group(workload), workload.model_package_group
        lengths = [
            ("name", "function", names.function(workload.name, FUNCTION_KIND), LONGEST_FUNCTION),
            ("registry.group", "group", group, LONGEST_GROUP),
        ]
        if deploys(workload):
            models = f"{names.pipeline(workload.name)}{RELEASE}"
            lengths.append(("name", "models", models, LONGEST_GROUP))
        for key, kind, name, most in lengths:
            if len(name) > most:
                yield (
                    f"{path}: {key}: the name of its {kind}, {name}, has {len(name)} characters, "
                    f"allowed: {most}, including the project's name"
                )
        # Each stack makes its workload's model package group.
        if own in owners:
            yield (
                f"{path}: registry.group: found {own!r}, which {owners[own]} already uses, "
                "allowed: one group for each workload"
            )
        owners.setdefault(own, workload.name)
        if in_own_network and workload.serving and workload.serving.deploy == "serverless":
            yield (
                f"{path}: serving.deploy: found 'serverless', which runs in no network of your "
                f"own, and {SETTINGS_FILE} has [network], allowed: 'none', 'real-time', 'batch'"
            )
        # An execution could not register its model with another status.
        scheduled = workload.schedule.parameters.given if workload.schedule is not None else {}
        statuses = {
            "registry.approval": workload.registry.approval,
            f"schedule.parameters.{APPROVAL}": scheduled.get(APPROVAL, WAITING),
        }
        for key, status in statuses.items():
            if settings.approval.trusted and status != WAITING:
                yield (
                    f"{path}: {key}: found {status!r}, allowed: {WAITING!r}, since "
                    f"{SETTINGS_FILE} names under [approval] who approves models"
                )
