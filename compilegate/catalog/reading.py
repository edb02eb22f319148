"""Reads the tables of facts/: a dataclass for each row. Pure."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import TypeVar

from pydantic import TypeAdapter

Row = TypeVar("Row")


def fact_text(name: str) -> str:
    """The text of a file of facts."""
    return files("compilegate.catalog").joinpath("facts", name).read_text(encoding="utf-8")


def fact_lines(name: str) -> list[dict[str, str]]:
    """The lines of a table by column, without what is empty."""
    lines = csv.DictReader(fact_text(name).splitlines())
    return [{column: value for column, value in line.items() if value} for line in lines]


def fact_rows(name: str, row: type[Row]) -> tuple[Row, ...]:
    """A table as objects of that dataclass; what is empty has its default."""
    return TypeAdapter(tuple[row, ...]).validate_python(fact_lines(name))  # type: ignore[valid-type]
