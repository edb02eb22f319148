"""The text of one script, and where each of its lines stands in the file."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

from compilegate.errors import CompilegateError

_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Place:
    """A line in a file, or in a notebook's cell."""

    line: int
    cell: int | None = None


@dataclass(frozen=True)
class Source:
    """A script that was parsed. A notebook's cells are joined into one script."""

    path: Path
    lines: tuple[str, ...]
    tree: ast.Module
    places: tuple[Place, ...] = ()
    """In a notebook, where each line of the joined script stands."""

    def place(self, line: int) -> Place:
        """Where a line of the tree stands for a reader."""
        if not self.places:
            return Place(line)
        return self.places[min(max(line, 1), len(self.places)) - 1]


class UnparsedError(CompilegateError):
    """Text is not Python. The message is one clause that says where and why."""


def lines_of(text: str) -> tuple[str, ...]:
    """The lines as Python counts them; a form feed does not end one."""
    return tuple(_LINE_END.split(text))


def parsed(text: str) -> ast.Module:
    """The tree of a script. Raises UnparsedError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes: not this check's business
            return ast.parse(text)
    except SyntaxError as error:
        at = f"line {error.lineno}: " if error.lineno else ""
        raise UnparsedError(f"{at}{error.msg}") from error
    except (RecursionError, MemoryError) as error:
        raise UnparsedError("its expressions are nested too deeply") from error
    except ValueError as error:  # null bytes, in older Pythons
        raise UnparsedError(str(error)) from error
