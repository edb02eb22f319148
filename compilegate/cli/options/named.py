"""An account that is only named: what other tools than the CDK deploy to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def named_place_options(command: Command) -> Command:
    """Add `--account`, `--region` and `--key` to a command."""
    command = click.option(
        "--key", metavar="ARN", help="The key of bucket and volumes. By default storage.key_arn."
    )(command)
    command = click.option("--region", help="By default that of the settings.")(command)
    return click.option("--account", help="Twelve digits. By default that of the settings.")(
        command
    )
