"""The account that a command works with: settings, the names made from them, session."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from compilegate.account.session import AwsSession, open_session
from compilegate.account.settings import SETTINGS_FILE, Names, Settings, read_settings
from compilegate.pipelines.staging import ImageFolder, image_folders

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Account:
    """Where a project is deployed."""

    names: Names
    session: AwsSession


def settings_option(command: Command) -> Command:
    """Add `--settings` to a command."""
    return click.option(
        "--settings",
        type=click.Path(dir_okay=False, path_type=Path),
        default=SETTINGS_FILE,
        show_default=True,
        callback=_there_if_named,
        help="The file that says which account the project is deployed to.",
    )(command)


def _there_if_named(context: click.Context, option: click.Parameter, path: Path) -> Path:
    """Without a settings file the defaults hold, unless somebody has named one."""
    named = context.get_parameter_source(str(option.name)) is not ParameterSource.DEFAULT
    if named and not path.exists():
        raise click.UsageError(f"--settings: {path} does not exist")
    return path


def poll_option(seconds: float) -> Callable[[Command], Command]:
    """Add the hidden option for the interval between two looks, which is `seconds` by default."""
    return click.option(
        "--poll-seconds",
        type=click.FloatRange(min=0),
        default=seconds,
        envvar="COMPILEGATE_POLL_SECONDS",
        hidden=True,
    )


def open_account(settings: Path) -> Account:
    """Read the settings and open a session; refuses what is wrong with either."""
    # The SageMaker SDK turns on boto3's log messages about where it found what.
    logging.getLogger("botocore").setLevel(logging.WARNING)
    declared = read_settings(settings)
    session = open_session(declared.region, declared.account)
    return Account(Names(declared), session)


def folders_of(settings: Settings, containers: Path) -> dict[str, ImageFolder]:
    """The image folders, with the bases and their digests that the settings name."""
    return image_folders(containers, settings.images.base, settings.images.pinned)
