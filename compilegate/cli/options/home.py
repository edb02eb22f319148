"""`--home`: where executions, artifacts, the registry and the step cache live."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def home_option(command: Command) -> Command:
    """Add `--home` to a command."""
    return click.option(
        "--home",
        type=click.Path(file_okay=False, path_type=Path),
        default=".compilegate",
        show_default=True,
        envvar="COMPILEGATE_HOME",
        show_envvar=True,
        help="Folder of executions, artifacts, the registry and the step cache.",
    )(command)
