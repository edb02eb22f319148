"""`--env`, `--share` and `--data`: what jobs here get from outside the definition."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

LATER = "later"
"""What --data says instead of a folder where a program fills the place while it runs."""

Command = TypeVar("Command", bound=Callable[..., Any])


def data_option(command: Command) -> Command:
    """Add `--data` to a command."""
    return click.option(
        "--data",
        metavar="s3://BUCKET[/KEY]=WHERE",
        multiple=True,
        help="A folder or file of this machine that stands for what lies there, or `later` where a "
        "program puts it there while it runs. May be given several times.",
    )(command)


def job_options(command: Command) -> Command:
    """Add `--env`, `--share` and `--data` to a command."""
    command = data_option(command)
    command = click.option(
        "--share",
        "shared",
        metavar="FOLDER",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="A folder of this machine that jobs may write to, such as a cache of downloads; all "
        "else outside their own folders is read-only to them. May be given several times.",
    )(command)
    return click.option(
        "--env",
        "variables",
        metavar="NAME[=VALUE]",
        multiple=True,
        help="A variable for the environment of every job; without a value, the shell's own. May "
        "be given several times.",
    )(command)


def job_variables(given: tuple[str, ...], shell: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables by name; refuses what is not NAME or NAME=VALUE."""
    variables: dict[str, str] = {}
    for item in given:
        name, separator, value = item.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise click.UsageError(f"--env: found {item!r}, allowed: NAME=VALUE, or NAME alone")
        if not separator and name not in shell:
            raise click.UsageError(
                f"--env: {name} has no value in this shell, allowed: {name}=VALUE"
            )
        variables[name] = value if separator else shell[name]
    return variables


def data_pairs(given: tuple[str, ...]) -> dict[str, str]:
    """What stands for each URI; refuses what is not s3://BUCKET[/KEY]=WHERE."""
    pairs: dict[str, str] = {}
    for item in given:
        # A key may hold `=`; what stands after the last one is a path here.
        uri, separator, where = item.rpartition("=")
        if not separator or not uri.startswith("s3://") or not where:
            raise click.UsageError(f"--data: found {item!r}, allowed: s3://BUCKET[/KEY]=WHERE")
        pairs[uri] = where
    return pairs
