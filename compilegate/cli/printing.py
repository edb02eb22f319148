"""What commands print: tables, documents, and a line on standard error for each problem."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path

import click

from compilegate.errors import CompilegateError
from compilegate.execution import exit_codes
from compilegate.execution.status import LostError
from compilegate.job.files import NO_SPACE, write_text


class RefusalError(CompilegateError):
    """Something on the command line, or a file that it names, cannot be used."""


@contextmanager
def writing(name: str, folder: Path | None = None) -> Iterator[None]:
    """Write what the command line names; `folder` must exist, so that a typo does not make it."""
    try:
        if folder is not None:
            os.scandir(folder).close()
        yield
    except OSError as error:
        raise RefusalError(f"{name} cannot be written: {error.strerror}") from error


@contextmanager
def found_in(path: Path) -> Iterator[None]:
    """Put the file's name before each problem with it, or with what it names."""
    try:
        yield
    except CompilegateError as error:
        raise error.within(path) from error
    except OSError as error:
        raise _file_error(error).within(path) from error


def _file_error(error: OSError) -> RefusalError:
    """An error of the operating system, such as a missing permission."""
    where = f"{error.filename}: " if error.filename else ""
    return RefusalError(f"{where}{error.strerror or error}")


def show_error(problem: str) -> None:
    """Print one problem."""
    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(problem, err=True)


def exit_for(error: CompilegateError | OSError, resume: str = "--resume") -> None:
    """Print an error, and exit with the status for it. Returns for an error of the operating system
    that names no file: it is a bug and keeps its traceback. `resume` continues an execution."""
    status = exit_codes.LOST if isinstance(error, LostError) else exit_codes.REFUSED
    if isinstance(error, OSError):
        if error.errno in NO_SPACE:
            next_step = f"what has ended is kept: free some space, then continue with {resume}"
            error = RefusalError(f"{error.filename or 'a disk'}: {error.strerror}; {next_step}")
            status = exit_codes.STEP_FAILED
        elif error.filename:
            error = _file_error(error)
        else:
            return
    for problem in error.problems:
        show_error(problem)
    raise SystemExit(status) from error


def announce(line: str) -> None:
    """Print a line on standard error: standard output may be a document."""
    click.echo(line, err=True)


def counted(found: Sized, what: str) -> str:
    """`1 execution`, `2 executions`."""
    return f"{len(found)} {what}{'' if len(found) == 1 else 's'}"


def print_json(document: object) -> None:
    """Print a document for programs."""
    click.echo(json.dumps(document, indent=2))


def aligned(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A line for each row, in columns that line up; the first row may hold the columns' names."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def print_table(rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns that line up."""
    for line in aligned(rows):
        click.echo(line)


def print_or_write(text: str, output: Path | None) -> None:
    """Print a document, or write it to the file of `--output`, whose folder must exist."""
    if output is None:
        click.echo(text, nl=False)
        return
    with writing(f"--output: {output}", output.parent):
        write_text(output, text)
