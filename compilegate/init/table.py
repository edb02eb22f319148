"""A table that somebody brings: which column is learned, what the others hold, and its two files.

A column of texts and one of classes make documents, which the built-in program classifies. Without
texts, one column is predicted from the others.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from compilegate.datasets.inspection import FORMATS, WINDOWS, how_written, read_sample
from compilegate.errors import CompilegateError

TEXTS = frozenset(
    [
        "text",
        "texts",
        "document",
        "review",
        "review_text",
        "sentence",
        "content",
        "body",
        "message",
        "comment",
        "tweet",
        "headline",
        "question",
        "abstract",
        "article",
        "description",
        "title",
        "sms",
        "utterance",
        "query",
        "post",
    ]
)
LABELS = ("label", "labels", "target", "class", "y", "outcome")
"""What a label is called whatever the table is about, the plainest first."""
TOPICAL_LABELS = frozenset(
    [
        "price",
        "category",
        "topic",
        "sentiment",
        "intent",
        "rating",
        "stars",
        "score",
        "species",
        "diagnosis",
        "survived",
        "churn",
        "attrition",
    ]
)
"""What is usually a label, if only one column is called so."""
IDENTIFIERS = frozenset(("id", "uuid", "guid", "key", "index", "number", "rownames", "unnamed", ""))
MISSING = frozenset(("na", "n/a", "nan", "null", "?"))
"""How cells without a value are written, besides empty ones."""
DATES = ("%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%b %d %Y", "%b %d, %Y", "%d %b %Y")
"""Beside ISO 8601; the first that all cells have."""

MOST_CLASSES = 200
MOST_CATEGORIES = 50
MOST_CLASSES_IN_NUMBERS = 20
"""Whole numbers of so few values are classes; of more, quantities."""
FEWEST_WORDS, WORDS_OF_DOCUMENTS = 2.5, 6
"""Words of a text on average. Of fewer than six they may be names, as of a ship's passengers."""
FEWEST_ROWS = 40
"""Before a fifth is held back to compare models on."""
VALIDATION_SHARE = 0.2

Row = Mapping[str, str]


class InitError(CompilegateError):
    """Nothing can be made of what was given; nothing was written."""


class UnclearLabelError(InitError):
    """Several columns could be the label."""

    def __init__(self, candidates: Sequence[str]) -> None:
        super().__init__(
            "--label: found no column that is plainly the label, allowed: " + _listed(candidates)
        )
        self.candidates = candidates


@dataclass(frozen=True)
class Column:
    """One column of a table, with what can be said of its cells."""

    name: str
    filled: int
    distinct: int
    numeric: bool
    whole: bool
    """Whether all are whole numbers."""
    counts: bool
    """Whether each cell is the one before and 1."""
    date: str | None
    """The format of all cells: `iso`, or one of strptime."""
    words: float
    """On average."""

    @property
    def known_as(self) -> str:
        """Its name in lower case, words joined by underscores: SalePrice is sale_price."""
        parted = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", self.name)
        return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")

    @property
    def identifies(self) -> bool:
        """Whether each row has a value of its own, under an identifier's name or counted up."""
        named = self.known_as in IDENTIFIERS or self.known_as.rpartition("_")[2] in ("id", "0")
        return (named or self.counts) and self.distinct == self.filled > 0

    @property
    def quantity(self) -> bool:
        return self.numeric and not (self.whole and self.distinct <= MOST_CLASSES_IN_NUMBERS)

    @property
    def classes(self) -> bool:
        """Whether a model could tell these values apart as classes."""
        few = 2 <= self.distinct <= min(MOST_CLASSES, max(2, self.filled // 4))
        return few and not self.quantity and self.date is None


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What each column is for."""

    label: str
    text: str | None = None
    """Set for documents; the fields below are of tables without."""
    identifier: str | None = None
    task: Literal["classes", "numbers"] = "classes"
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    dates: Mapping[str, str] | None = None
    """Their formats."""
    left_out: tuple[str, ...] = ()
    """Columns that say nothing: identifiers, names that differ in every row, constant ones."""


@dataclass(frozen=True)
class Table:
    """All rows of a file as texts, with sentences on how they were read."""

    path: Path
    columns: tuple[str, ...]
    rows: list[dict[str, str]]
    told: tuple[str, ...]

    def described(self) -> list[Column]:
        return [column_of(name, [row[name] for row in self.rows]) for name in self.columns]

    def split(
        self, *, needed: Sequence[str], same_by: Sequence[str], spread_by: str | None
    ) -> tuple[list[Row], list[Row], str]:
        """The rows that have what is needed, in two parts, and a sentence on those left out."""
        whole = [row for row in self.rows if all(row[column] for column in needed)]
        _refuse_few(self.path, len(whole))
        train, validation = split_rows(whole, same_by=same_by, spread_by=spread_by)
        if not validation:
            raise InitError(
                f"{self.path}: found too few rows of each {spread_by!r} to hold some back, "
                "allowed: five or more of some; --label COLUMN names another"
            )
        without = len(self.rows) - len(whole)
        columns = " or ".join(map(repr, needed))
        return train, validation, f"{without:,} rows without {columns} are left out" * bool(without)

    def csv(self, rows: Sequence[Row]) -> bytes:
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()


def read_table(path: Path) -> Table:
    """Read all rows of a csv, jsonl or parquet file. Raises InitError."""
    if path.suffix not in FORMATS:
        raise InitError(f"SOURCE: found {path}, allowed: a file ending in {', '.join(FORMATS)}")
    try:
        separator, encoding = how_written(path)
        sample = read_sample(path, separator=separator, encoding=encoding)
    except OSError as error:
        raise InitError(f"SOURCE: {path} cannot be read: {error.strerror}") from error
    if not sample.whole:
        raise InitError(*(f"{path}: {fault}" for fault in sample.faults))
    named = (name for row in sample.records[:1000] for name in row.cells)
    columns = tuple(dict.fromkeys((*sample.columns, *named)))
    if columns and all(_number(name) is not None for name in columns):
        raise InitError(f"{path}: line 1: found {', '.join(columns)}, allowed: names of columns")
    _refuse_few(path, len(sample.records))
    told = [f"{path}: {fault}; left out" for fault in sample.faults]
    if path.suffix == ".csv" and separator != ",":
        told.append(f"the columns of {path} are separated by {separator!r}; now by commas")
    if path.suffix == ".csv" and encoding == WINDOWS:
        told.append(f"{path} is no UTF-8 and was read as Windows-1252; now it is UTF-8")
    rows = [{name: _text(row.cells.get(name)) for name in columns} for row in sample.records]
    return Table(path, columns, rows, tuple(told))


def column_of(name: str, cells: Sequence[Any]) -> Column:
    filled = [text for text in map(_text, cells) if text]
    numbers = [number for number in map(_number, filled) if number is not None]
    numeric = 0 < len(numbers) == len(filled)
    steps = {after - before for before, after in itertools.pairwise(numbers)}
    return Column(
        name=name,
        filled=len(filled),
        distinct=len(set(filled)),
        numeric=numeric,
        whole=numeric and all(number.is_integer() for number in numbers),
        counts=numeric and len(filled) == len(cells) and numbers[0] in (0, 1) and steps == {1},
        date=None if numeric or not filled else _date_format(filled),
        words=sum(len(text.split()) for text in filled) / max(1, len(filled)),
    )


def roles(
    columns: Sequence[Column], subject: str = "", *, text: str | None = None,
    label: str | None = None,
) -> Roles:  # fmt: skip
    """What each column is for; `subject` is the file's name, and `text` and `label` are options.

    Raises InitError where it cannot be told, with the columns and the option that tells.
    """
    of = {column.name: column for column in columns}
    for option, given in (("--text", text), ("--label", label)):
        if given is not None and given not in of:
            raise InitError(f"{option}: found no column {given!r}, allowed: {_listed(list(of))}")
    quantity = label is not None and of[label].quantity
    texts = text or (None if quantity else _text_column(columns, label))
    if texts is not None:
        rest = [column for column in columns if column.name != texts]
        fitting = [column for column in rest if column.classes and not column.identifies]
        if label is None and not fitting:
            raise InitError(
                f"--label: found no column that looks like classes beside {texts!r}, allowed: "
                f"{_listed([column.name for column in rest])}"
            )
        identifier = next((each.name for each in rest if each.name and each.identifies), None)
        found = label or _label_column(fitting, subject)
        return Roles(text=texts, label=found, identifier=identifier)
    usable = [column for column in columns if column.distinct >= 2 and not column.identifies]
    fitting = [column for column in usable if column.classes or column.numeric]
    if label is None and not fitting:
        raise InitError(
            "--label: found no column of texts, classes or numbers to learn, allowed: "
            f"{_listed(list(of)) or 'a table with a header'}"
        )
    target = label or _label_column(fitting, subject)
    return _roles_in_table(target, of, [column for column in usable if column.name != target])


def _roles_in_table(target: str, of: Mapping[str, Column], inputs: Sequence[Column]) -> Roles:
    numbers = tuple(column.name for column in inputs if column.numeric)
    dates = {column.name: column.date for column in inputs if column.date is not None}
    categories = tuple(
        column.name
        for column in inputs
        if not column.numeric and column.date is None and column.distinct <= MOST_CATEGORIES
    )
    used = {target, *numbers, *dates, *categories}
    if len(used) == 1:
        raise InitError(
            f"--label: found nothing beside {target!r} to predict it from, allowed: a table with "
            "columns of numbers, dates or a few categories, or one of texts (--text)"
        )
    return Roles(
        label=target,
        task="numbers" if of[target].quantity else "classes",
        numbers=numbers,
        categories=categories,
        dates=dates,
        left_out=tuple(name for name in of if name not in used),
    )


def _text_column(columns: Sequence[Column], label: str | None) -> str | None:
    """Short texts count if their column is called so and few columns hold numbers."""
    few_numbers = sum(column.numeric and not column.identifies for column in columns) <= 2
    differing = [
        column
        for column in columns
        if column.name != label
        and not (column.numeric or column.date)
        and column.distinct > column.filled / 2
    ]
    named = [
        column
        for column in columns
        if column.name != label and column.known_as in TEXTS and not column.numeric
    ]
    found = [
        *(each for each in named if each.words >= FEWEST_WORDS and few_numbers),
        *(each for each in named if each.words >= WORDS_OF_DOCUMENTS),
    ] or [each for each in differing if each.words >= WORDS_OF_DOCUMENTS]
    return max(found, key=lambda column: column.words).name if found else None


def _label_column(fitting: Sequence[Column], subject: str) -> str:
    """The one that a person would take; raises UnclearLabelError where several would do."""
    about = {each.removesuffix("s") for each in re.split(r"[^a-z0-9]+", subject.lower())}
    by_parts = {column.name: set(column.known_as.split("_")) for column in fitting}
    rules = [
        [column.name for name in LABELS for column in fitting if column.known_as == name][:1],
        [name for name, parts in by_parts.items() if {p.removesuffix("s") for p in parts} <= about],
        [name for name, parts in by_parts.items() if "price" in parts],
        [column.name for column in fitting if column.known_as in TOPICAL_LABELS],
        list(by_parts),
    ]
    found = next((names[0] for names in rules if len(names) == 1), None)
    if found is None:
        raise UnclearLabelError(list(by_parts))
    return found


def split_rows(
    rows: Sequence[Row], *, same_by: Sequence[str], spread_by: str | None
) -> tuple[list[Row], list[Row]]:
    """Training and validation rows, in the order they had.

    Rows are drawn by a digest of their content, so that neither their order nor chance decides.
    Rows that agree in the columns `same_by` stay together: no model is compared on what it was
    trained on. With `spread_by`, each value of that column gives a fifth of its rows; one that has
    a single row is only trained on.
    """
    groups: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, row in enumerate(rows):
        cells = "\0".join(str(row[column]) for column in same_by)
        group = "" if spread_by is None else row[spread_by]
        groups[group][hashlib.sha256(cells.encode()).hexdigest()].append(number)
    chosen: set[int] = set()
    for alike in groups.values():
        wanted = len(chosen) + round(sum(map(len, alike.values())) * VALIDATION_SHARE)
        for digest in sorted(alike)[:-1]:  # the last stays: something has to be trained on
            if len(chosen) < wanted:
                chosen |= set(alike[digest])
    return (
        [row for number, row in enumerate(rows) if number not in chosen],
        [row for number, row in enumerate(rows) if number in chosen],
    )


def _text(cell: Any) -> str:
    """A cell as a csv file holds it; nothing for no value."""
    text = str(cell).lower() if isinstance(cell, bool) else str(cell).strip()
    return "" if cell is None or text.lower() in MISSING else text


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date_format(cells: Sequence[str]) -> str | None:
    for form in ("iso", *DATES):
        try:
            for cell in cells:
                if form == "iso":
                    datetime.fromisoformat(cell)
                else:
                    datetime.strptime(cell, form)  # noqa: DTZ007  only whether it fits
        except ValueError:
            continue
        return form
    return None


def _refuse_few(path: Path, rows: int) -> None:
    if rows < FEWEST_ROWS:
        raise InitError(
            f"{path}: found {rows} rows that can be used, allowed: {FEWEST_ROWS} or more, of which "
            "a fifth is held back to compare models on"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
