"""Where a project's parts lie, and how a name on the command line becomes a workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from compilegate.account.settings import SETTINGS_FILE, Settings, read_settings
from compilegate.built_in import IMAGE_FOLDERS
from compilegate.workload import Workload, find_workload, read_workload

Command = TypeVar("Command", bound=Callable[..., Any])


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
        help="Folder with one folder for each image. By default containers/, or else the images "
        "that ship with Compilegate.",
    )(command)


def _containers_here() -> Path:
    own = Path("containers")
    return own if any(own.glob("*/requirements.txt")) else IMAGE_FOLDERS


def require_containers(containers: Path) -> None:
    """Refuse a folder of images that is not there."""
    if not containers.is_dir():
        raise click.UsageError(
            f"--containers: {containers} is not a folder, allowed: one that holds a folder for "
            "each image, as containers/ of a checkout does"
        )


def project_options(command: Command) -> Command:
    """Add `--workloads` and `--containers` to a command."""
    return workloads_option(containers_option(command))


def settings_here() -> Settings:
    """The settings of the project in this folder; the defaults if it has none."""
    return read_settings(SETTINGS_FILE)


def load_workload(name_or_path: str, workloads: Path) -> tuple[Workload, Path]:
    """The checked workload and its file; refuses what is wrong with it."""
    path = find_workload(name_or_path, workloads)
    return read_workload(path), path


def deployed_workloads(settings: Settings, workloads: Path) -> list[tuple[Workload, Path]]:
    """The workloads that a deployment of this folder has, each with its file: those that the
    settings name, or else all."""
    paths = (
        [find_workload(name, workloads) for name in settings.workloads]
        if settings.workloads
        else sorted(workloads.glob("*.toml"))
    )
    return [(read_workload(path), path) for path in paths]
