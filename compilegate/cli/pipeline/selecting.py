"""`--until`, `--skip`, `--stub`: which steps of a definition `run` carries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from compilegate.cli.options.parameters import name_value_pairs
from compilegate.local import Selection, read_stub

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
        "--stub",
        "stubs",
        metavar="STEP=FILE",
        multiple=True,
        help="Do not carry this step out: what it gives is in FILE, a JSON object with members of "
        "its Describe response. May be given several times.",
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
    click.option(
        "--register-from-stubs",
        is_flag=True,
        help="Register models although a stub, or a step that was left out, lies before them.",
    ),
)


def selection_options(command: Command) -> Command:
    """Add them to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def selection_of(
    until: tuple[str, ...], skip: tuple[str, ...], stubs: tuple[str, ...], register: bool
) -> Selection:
    """What was asked for, with the files of the stubs read."""
    files = name_value_pairs("--stub", stubs)
    return Selection(
        until=until,
        skip=skip,
        stubs={step: read_stub(step, Path(file)) for step, file in files.items()},
        register_from_stubs=register,
    )


def left_out_lines(left_out: Mapping[str, str]) -> list[str]:
    """A line for each reason to leave steps out, with their names."""
    by_reason: dict[str, list[str]] = {}
    for name, why in left_out.items():
        by_reason.setdefault(why, []).append(name)
    return [f"left out: {', '.join(names)} ({why})" for why, names in by_reason.items()]
