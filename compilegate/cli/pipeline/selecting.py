"""`--until`, `--skip`, `--command`: which steps of a definition `run` carries out, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--until",
        metavar="STEP",
        multiple=True,
        help="Carry out this step and what it needs, and nothing else. May be given several times.",
    ),
    click.option(
        "--skip",
        metavar="STEP",
        multiple=True,
        help="Leave this step out, and the steps that read what it gives. Steps that only wait for "
        "it go on. May be given several times.",
    ),
    click.option(
        "--command",
        "commands",
        metavar="STEP=COMMAND",
        multiple=True,
        help="Run this shell command for the step: it reads the request from the file "
        "$COMPILEGATE_REQUEST, and writes what the step gives to $COMPILEGATE_RESULT, both JSON. "
        "May be given several times.",
    ),
)


def selection_options(command: Command) -> Command:
    """Add them to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def left_out_lines(left_out: Mapping[str, str]) -> list[str]:
    """A line for each reason to leave steps out, with their names."""
    by_reason: dict[str, list[str]] = {}
    for name, why in left_out.items():
        by_reason.setdefault(why, []).append(name)
    return [f"left out: {', '.join(names)} ({why})" for why, names in by_reason.items()]
