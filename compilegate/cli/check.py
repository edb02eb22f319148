"""`compilegate check`: what in a script breaks a compiler or slows it down."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.check.checking import check_paths
from compilegate.check.findings import Checked, Severity
from compilegate.check.output.text import text_lines
from compilegate.check.rules.rule import COMPILERS
from compilegate.cli.terminal.errors import RefusalError
from compilegate.execution import exit_codes

_STATUS = {
    Severity.ERROR: exit_codes.CHECK_ERRORS,
    Severity.WARNING: exit_codes.CHECK_WARNINGS,
    Severity.NOTE: exit_codes.CHECK_NOTES,
}
_NEVER = "never"


@click.command("check")
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--compiler",
    "compiler",
    type=click.Choice([*COMPILERS, "all"]),
    default="all",
    show_default=True,
    help="The compiler that the scripts are to survive.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.word for severity in reversed(Severity)), _NEVER]),
    default=Severity.ERROR.word,
    show_default=True,
    help="From which severity on findings make the exit status.",
)
def command(paths: tuple[Path, ...], compiler: str, fail_on: str) -> None:
    """Read training scripts and say what in them breaks a compiler or slows it down.

    \b
      compilegate check train.py --compiler torch-compile
      compilegate check src/ notebooks/ --compiler all

    PATH is a file, a folder or a notebook (.ipynb). Nothing is imported or run. A comment
    `# compilegate: ignore[RULE] reason` on the line, or on its own above it, ignores a finding. A
    file that cannot be read is one line on standard error, and the others are still checked.

    The exit status tells the gravest finding, from --fail-on on: 6 an error, 7 a warning, 8 a note.
    """
    checked = check_paths(paths, COMPILERS if compiler == "all" else (compiler,))
    for unread in checked.unread:
        click.echo(unread.sentence, err=True)
    if not checked.files:
        raise RefusalError("nothing was checked: no PATH leads to a script that can be read")
    for line in text_lines(checked):
        click.echo(line)
    raise SystemExit(_status(checked, fail_on))


def _status(checked: Checked, fail_on: str) -> int:
    gravest = checked.gravest
    if gravest is None or fail_on == _NEVER or gravest < Severity[fail_on.upper()]:
        return exit_codes.DECIDED
    return _STATUS[gravest]
