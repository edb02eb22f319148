"""Errors on the terminal, a line on standard error for each problem; and lines of a table."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from compilegate.errors import CompilegateError
from compilegate.execution import exit_codes
from compilegate.execution.status import LostError
from compilegate.job.files import NO_SPACE


class RefusalError(CompilegateError):
    """Something on the command line, or a file that it names, cannot be used."""


@contextmanager
def refusing_os_errors() -> Iterator[None]:
    """Turn an error of the operating system, such as a missing permission, into a refusal."""
    try:
        yield
    except OSError as error:
        said = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        raise RefusalError(f"{where}{said}") from error


@contextmanager
def writing(said: str, folder: Path | None = None) -> Iterator[None]:
    """Write what the command line names; `folder` must exist, so that a typo does not make it."""
    try:
        if folder is not None:
            os.scandir(folder).close()
        yield
    except OSError as error:
        raise RefusalError(f"{said} cannot be written: {error.strerror}") from error


@contextmanager
def found_in(path: Path) -> Iterator[None]:
    """Put the file's name before each problem with it, or with what it names."""
    try:
        with refusing_os_errors():
            yield
    except CompilegateError as error:
        raise error.within(path) from error


def show_error(problem: str) -> None:
    """Print one problem."""
    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(problem, err=True)


class Shown(click.ClickException):
    """An error of this project, for click; any other is a bug and keeps its traceback."""

    exit_code = exit_codes.REFUSED

    def __init__(self, error: CompilegateError) -> None:
        super().__init__(str(error))
        self.problems = error.problems

    def show(self, file: IO[Any] | None = None) -> None:
        for problem in self.problems:
            show_error(problem)


class _ShownLoss(Shown):
    exit_code = exit_codes.LOST


class _ShownFullDisk(Shown):
    exit_code = exit_codes.STEP_FAILED


def shown(error: CompilegateError) -> Shown:
    """The error as click shows it, with the exit status for it."""
    return _ShownLoss(error) if isinstance(error, LostError) else Shown(error)


def disk_error(error: OSError, resume: str = "--resume") -> Shown | None:
    """A disk that is full, or a file that may not be read or written, as click shows it; None for
    any other error. `resume` is how to go on with an execution."""
    if error.errno in NO_SPACE:
        kept = f"what has ended is kept: free some space, then continue with {resume}"
        return _ShownFullDisk(
            RefusalError(f"{error.filename or 'a disk'}: {error.strerror}; {kept}")
        )
    if error.errno == errno.EROFS or (isinstance(error, PermissionError) and error.filename):
        return Shown(RefusalError(f"{error.filename}: {error.strerror}"))
    return None


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line for each row, in columns that line up; the first row holds the columns' names."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
