"""The rows of a table that somebody brings: read whole, and divided into two files."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compilegate.datasets.tables import FORMATS, WINDOWS, how_written, read_sample
from compilegate.init.columns import number_of, text_of
from compilegate.init.errors import InitError
from compilegate.init.project import NewFile
from compilegate.init.splitting import split_rows

FEWEST_ROWS = 40
"""Before a fifth is held back to compare models on."""


@dataclass
class Rows:
    """All rows of a file as texts."""

    columns: tuple[str, ...]
    rows: list[dict[str, str]]
    told: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Split:
    """The rows of a table in two parts, as files of the project."""

    train: Sequence[Mapping[str, str]]
    validation: Sequence[Mapping[str, str]]
    columns: Sequence[str]
    told: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        train, held_back = len(self.train), len(self.validation)
        return f"{train:,} rows train, {held_back:,} are held back to compare models"

    def files(self, name: str) -> list[NewFile]:
        return [
            NewFile(f"data/{name}/{part}.csv", _csv(self.columns, rows))
            for part, rows in (("train", self.train), ("validation", self.validation))
        ]

    def values(self, name: str) -> dict[str, Any]:
        """What a template says of the data."""
        return {
            "train": f"../data/{name}/train.csv",
            "validation": f"../data/{name}/validation.csv",
            "train_rows": f"{len(self.train):,}",
            "validation_rows": f"{len(self.validation):,}",
        }


def all_rows(path: Path) -> Rows:
    if path.suffix not in FORMATS:
        raise InitError(f"SOURCE: found {path}, allowed: a file ending in {', '.join(FORMATS)}")
    try:
        written = how_written(path)
        sample = read_sample(path, written=written)
    except OSError as error:
        raise InitError(f"SOURCE: {path} cannot be read: {error.strerror}") from error
    if not sample.whole:
        raise InitError(*(f"{path}: {fault}" for fault in sample.faults))
    named = (name for row in sample.records[:1000] for name in row.cells)
    columns = tuple(dict.fromkeys((*sample.columns, *named)))
    if columns and all(number_of(name) is not None for name in columns):
        raise InitError(f"{path}: line 1: found {', '.join(columns)}, allowed: names of columns")
    _refuse_few(path, len(sample.records))
    rows = [{name: text_of(row.cells.get(name)) for name in columns} for row in sample.records]
    told = [f"{path}: {fault}; left out" for fault in sample.faults]
    if path.suffix == ".csv" and written.separator != ",":
        told.append(f"the columns of {path} are separated by {written.separator!r}; now by commas")
    if path.suffix == ".csv" and written.encoding == WINDOWS:
        told.append(f"{path} is no UTF-8 and was read as Windows-1252; now it is UTF-8")
    return Rows(columns, rows, told)


def split_of(path: Path, read: Rows, *, needed: Sequence[str], same_by: Sequence[str],
           spread_by: str | None) -> Split:  # fmt: skip
    """The rows that have what is needed, in two parts."""
    whole = [row for row in read.rows if all(row[column] for column in needed)]
    told = list(read.told)
    if len(whole) < len(read.rows):
        columns = " or ".join(map(repr, needed))
        told.append(f"{len(read.rows) - len(whole):,} rows without {columns} were left out")
    _refuse_few(path, len(whole))
    train, validation = split_rows(whole, same_by=same_by, spread_by=spread_by)
    if not validation:
        raise InitError(
            f"{path}: found too few rows of each {spread_by!r} to hold some back, allowed: five or "
            "more of some; --label COLUMN names another"
        )
    return Split(train, validation, read.columns, tuple(told))


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _refuse_few(path: Path, rows: int) -> None:
    if rows < FEWEST_ROWS:
        raise InitError(
            f"{path}: found {rows} rows that can be used, allowed: {FEWEST_ROWS} or more, of which "
            "a fifth is held back to compare models on"
        )
