"""`compilegate check`: what in a script breaks a compiler or slows it down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from shutil import copymode

import click

from compilegate.check.checking import CheckResult, check_paths
from compilegate.check.fixes import fix_paths
from compilegate.check.output import NOTHING, annotations_of, json_of, sarif_of, summary, text_of
from compilegate.cli.options import FILE, refuse_given
from compilegate.cli.printing import RefusalError, print_or_write, writing
from compilegate.execution import exit_codes
from compilegate.job.files import whole_file
from compilegate.rules import COMPILERS, Severity

_STATUS = {
    Severity.ERROR: exit_codes.CHECK_ERRORS,
    Severity.WARNING: exit_codes.CHECK_WARNINGS,
    Severity.NOTE: exit_codes.CHECK_NOTES,
}
_NEVER = "never"
_FORMATS: Mapping[str, Callable[[CheckResult], str]] = {
    "text": text_of,
    "json": json_of,
    "sarif": lambda checked: sarif_of(checked, version("compilegate")),
    "github": annotations_of,
}


@click.command("check")
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--compiler",
    type=click.Choice([*COMPILERS, "all"]),
    default="all",
    show_default=True,
    help="The compiler to check the scripts for.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*(severity.word for severity in reversed(Severity)), _NEVER]),
    default=Severity.ERROR.word,
    show_default=True,
    help="The least severity that makes the exit status nonzero.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([*_FORMATS]),
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
@click.option("--fix", is_flag=True, help="Show the diff of what changes no loss, and write it.")
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

    PATH is a file, a folder or a notebook (.ipynb). Nothing is imported or run. The first line says
    which training loops were found, what was followed from there and what was not. A comment
    `# compilegate: ignore[RULE] reason` on the line, or on its own above it, ignores a finding.

    The exit status tells the gravest finding, from --fail-on on: 6 an error, 7 a warning, 8 a note.
    It is 2 where no training loop was found, for then nothing was checked.
    """
    compilers = COMPILERS if compiler == "all" else (compiler,)
    if fix and diff:
        raise RefusalError("--fix changes the files and --diff only shows it; name one of them")
    if diff:
        refuse_given({"--format", "--output"}, "does not go with --diff, which prints text")
    if fix or diff:
        _fix(paths, compilers, write=fix)
    if diff:
        return
    checked = check_paths(paths, compilers)
    for unread in checked.unread:
        click.echo(unread.sentence, err=True)
    if not checked.files:
        raise RefusalError("nothing was checked: no PATH holds a Python script that can be read")
    print_or_write(f"{_FORMATS[form](checked)}\n", output)
    if output is not None:
        click.echo(summary(checked) if checked.understood else NOTHING)
    raise SystemExit(0 if fail_on == _NEVER else _status(checked, Severity[fail_on.upper()]))


def _status(checked: CheckResult, least: Severity) -> int:
    if not checked.understood:
        return exit_codes.REFUSED
    gravest = max((finding.severity for finding in checked.findings), default=None)
    return 0 if gravest is None or gravest < least else _STATUS[gravest]


def _fix(paths: tuple[Path, ...], compilers: tuple[str, ...], *, write: bool) -> None:
    """Show the mechanical fixes as a diff, on standard error where they are written too."""
    fixed, refused = fix_paths(paths, compilers)
    for each in fixed:
        click.echo(each.diff, nl=False, err=write)
        if write:
            target = each.path.resolve()
            with writing(str(each.path)), whole_file(target) as part:
                part.write_bytes(each.after)
                copymode(target, part)
            click.echo(f"{each.path}: fixed ({', '.join(each.rules)})", err=True)
    for unread in refused:
        click.echo(unread.sentence, err=True)
    if not fixed:
        click.echo("nothing can be fixed automatically", err=write)
