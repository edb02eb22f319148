"""`-p NAME=VALUE`: pipeline parameters on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def parameter_option(command: Command) -> Command:
    """Add `--parameter` to a command."""
    return click.option(
        "--parameter",
        "-p",
        "parameters",
        metavar="NAME=VALUE",
        multiple=True,
        help="Set a pipeline parameter; may be given several times.",
    )(command)


def parameter_pairs(given: tuple[str, ...]) -> dict[str, str]:
    """The parameters' values by name; refuses what is not NAME=VALUE."""
    return name_value_pairs("--parameter", given)


def name_value_pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """The values of an option that takes NAME=VALUE; the last one for a name counts."""
    pairs: dict[str, str] = {}
    for item in given:
        # Neither an image's pattern nor a parameter's name contains `=`.
        name, separator, value = item.partition("=")
        if not separator or not name:
            raise click.UsageError(f"{option}: found {item!r}, allowed: NAME=VALUE")
        pairs[name] = value
    return pairs
