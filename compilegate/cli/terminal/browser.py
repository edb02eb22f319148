"""`--open`: a report in the browser."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def open_option(command: Command) -> Command:
    """Add `--open` to a command that ends with a report."""
    return click.option(
        "--open", "open_page", is_flag=True, help="Show the report in the browser at the end."
    )(command)


def show_page(page: Path) -> None:
    """Open a page in the browser that $BROWSER names, or in the desktop's."""
    if not webbrowser.open(page.resolve().as_uri()):
        click.echo(f"--open: no browser was found; set BROWSER, or open {page}", err=True)
