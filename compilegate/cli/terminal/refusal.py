"""Input that cannot be used ends in sentences on standard error and the exit status for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from compilegate.execution import exit_codes


class Refusal(click.ClickException):
    """Shown as `error: SENTENCE`, a line for each problem."""

    exit_code = exit_codes.REFUSED

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.message.splitlines():
            click.secho("error: ", fg="red", bold=True, nl=False, err=True)
            click.echo(line, err=True)


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """Turn the named errors into a refusal; any other is a defect and keeps its traceback."""
    try:
        yield
    except errors as error:
        raise Refusal(str(error)) from error
