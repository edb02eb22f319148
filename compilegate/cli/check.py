"""`compilegate check`: what in a script breaks a compiler or slows it down."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from shutil import copymode

import click

from compilegate.check.checking import check_paths
from compilegate.check.findings import Checked, Severity
from compilegate.check.output.annotations import annotation_lines
from compilegate.check.output.documents import json_text
from compilegate.check.output.sarif import sarif_text
from compilegate.check.output.text import summary, text_lines
from compilegate.cli.options import FILE, print_or_write
from compilegate.cli.terminal.errors import RefusalError, writing
from compilegate.execution import exit_codes
from compilegate.job.files import whole_file
from compilegate.rules import COMPILERS

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
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
    help="sarif for code hosts and editors; github annotates the lines of a pull request.",
)
@click.option(
    "--output",
    "-o",
    type=FILE,
    help="Write to this file instead of the terminal, which then gets one line.",
)
@click.option(
    "--fix", is_flag=True, help="Fix what can be fixed automatically; then list what is left."
)
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
def command(
    paths: tuple[Path, ...],
    *,
    compiler: str,
    fail_on: str,
    form: str,
    output: Path | None,
    fix: bool,
    diff: bool,
) -> None:
    """Read training scripts and say what in them breaks a compiler or slows it down.

    \b
      compilegate check train.py --compiler torch-compile
      compilegate check src/ notebooks/ --compiler all
      compilegate check train.py --diff

    PATH is a file, a folder or a notebook (.ipynb). Nothing is imported or run. A comment
    `# compilegate: ignore[RULE] reason` on the line, or on its own above it, ignores a finding. A
    file that cannot be read is one line on standard error, and the others are still checked.

    The exit status tells the gravest finding, from --fail-on on: 6 an error, 7 a warning, 8 a note.
    """
    compilers = COMPILERS if compiler == "all" else (compiler,)
    if fix and diff:
        raise RefusalError("--fix changes the files and --diff only shows it; name one of them")
    if diff and (output is not None or form != "text"):
        raise RefusalError("--diff shows text alone; leave out --format and --output")
    if fix or diff:
        _fix(paths, compilers, show=diff)
    if diff:
        return
    checked = check_paths(paths, compilers)
    for unread in checked.unread:
        click.echo(unread.sentence, err=True)
    if not checked.files:
        raise RefusalError("nothing was checked: no PATH leads to a script that can be read")
    text = _rendered(checked, form)
    print_or_write(f"{text}\n", output)
    if output is not None:
        click.echo(summary(checked))
    raise SystemExit(_status(checked, fail_on))


def _fix(paths: tuple[Path, ...], compilers: tuple[str, ...], *, show: bool) -> None:
    """Write the mechanical fixes, a line for each file on standard error; or show them."""
    from compilegate.check.fixing.fixing import fix_paths  # noqa: PLC0415 (LibCST is slow to load)

    fixes = fix_paths(paths, compilers)
    for fixed in fixes.fixed:
        if show:
            click.echo(fixed.diff, nl=False)
            continue
        target = fixed.path.resolve()
        with writing(str(fixed.path)), whole_file(target) as part:
            part.write_bytes(fixed.after)
            copymode(target, part)
        click.echo(fixed.sentence, err=True)
    for unread in fixes.not_fixed:
        click.echo(unread.sentence, err=True)
    if show and not fixes.fixed:
        click.echo("nothing to fix by itself")


def _rendered(checked: Checked, form: str) -> str:
    match form:
        case "json":
            return json_text(checked)
        case "sarif":
            return sarif_text(checked, version("compilegate"))
        case "github":
            return "\n".join(annotation_lines(checked))
    return "\n".join(text_lines(checked))


def _status(checked: Checked, fail_on: str) -> int:
    gravest = checked.gravest
    if gravest is None or fail_on == _NEVER or gravest < Severity[fail_on.upper()]:
        return exit_codes.DECIDED
    return _STATUS[gravest]
