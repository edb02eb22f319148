"""What the columns of a table hold, and so what can be learned from it. Pure.

A column of texts and one of classes make documents, which the built-in program classifies. Without
texts, the other columns are what a last one is predicted from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from compilegate.init.errors import InitError

Cells = Sequence[Any]

TEXTS = (
    "text", "texts", "document", "review", "review_text", "sentence", "content", "body", "message",
    "comment", "tweet", "headline", "question", "abstract", "article", "description", "title",
    "sms", "utterance", "query", "post",
)  # fmt: skip
LABELS = (
    "label", "labels", "class", "target", "category", "topic", "sentiment", "y", "intent", "rating",
    "stars", "score", "outcome", "species", "diagnosis", "type", "price", "value",
)  # fmt: skip
IDENTIFIERS = ("id", "uuid", "guid", "key", "index", "number", "row_id", "unnamed: 0", "")

MOST_CLASSES = 200
FEWEST_WORDS = 2.5
"""Words that a text has on average; what has fewer is a name."""
MOST_CATEGORIES = 50
MOST_CLASSES_IN_NUMBERS = 20
"""Whole numbers of so few values are classes; of more, quantities."""


@dataclass(frozen=True)
class Column:
    """One column of a table, with what can be said of its cells."""

    name: str
    filled: int
    numbers: int
    """Cells that are numbers."""
    whole: bool
    """Whether all numbers are whole."""
    distinct: int
    words: float
    """On average."""

    @property
    def numeric(self) -> bool:
        return self.filled > 0 and self.numbers == self.filled

    @property
    def known_as(self) -> str:
        return self.name.strip().lower().replace(" ", "_")

    @property
    def identifies(self) -> bool:
        """Whether each row has a value of its own, under a name that identifiers have."""
        named = self.known_as in IDENTIFIERS or self.known_as.endswith("_id")
        return named and self.distinct == self.filled > 0

    @property
    def classes(self) -> bool:
        """Whether a model could tell these values apart as classes."""
        few = 2 <= self.distinct <= min(MOST_CLASSES, max(2, self.filled // 4))
        return few and (not self.numeric or (self.whole and self.distinct <= 20))


@dataclass(frozen=True, kw_only=True)
class Documents:
    """Texts and their classes."""

    text: str
    label: str
    identifier: str | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns from which another is predicted."""

    target: str
    task: Literal["classes", "numbers"]
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    left_out: tuple[str, ...]
    """Columns that say nothing: identifiers, names that differ in every row, empty ones."""


def column_of(name: str, cells: Cells) -> Column:
    filled = [text for text in map(text_of, cells) if text]
    numbers = [number for number in map(number_of, filled) if number is not None]
    return Column(
        name=name,
        filled=len(filled),
        numbers=len(numbers),
        whole=all(number.is_integer() for number in numbers),
        distinct=len(set(filled)),
        words=sum(len(text.split()) for text in filled) / max(1, len(filled)),
    )


def text_of(cell: Any) -> str:
    """A cell as a csv file holds it; nothing for no value."""
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell).strip()


def number_of(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def roles(
    columns: Sequence[Column], *, text: str | None = None, label: str | None = None
) -> Documents | Table:
    """What each column is for; `text` and `label` say what the command line says.

    Raises InitError where it cannot be told, with the columns and the option that tells.
    """
    names = [column.name for column in columns]
    for option, given in (("--text", text), ("--label", label)):
        if given is not None and given not in names:
            raise InitError(f"{option}: found no column {given!r}, allowed: {_listed(names)}")
    texts = _text_column(columns, text=text, label=label)
    rest = [column for column in columns if column.name != texts]
    if texts is None:
        return _table(rest, label)
    target = label or _label_column([column for column in rest if column.classes])
    if target is None:
        raise InitError(
            f"--label: found no column that looks like classes beside {texts!r}, allowed: "
            f"{_listed([column.name for column in rest])}"
        )
    identifier = next((column.name for column in rest if column.identifies), None)
    return Documents(text=texts, label=target, identifier=None if identifier == "" else identifier)


def _text_column(columns: Sequence[Column], *, text: str | None, label: str | None) -> str | None:
    if text is not None:
        return text
    wordy = [
        column
        for column in columns
        if column.name != label and not column.numeric and column.words >= FEWEST_WORDS
    ]
    named = [column for column in wordy if column.known_as in TEXTS]
    differing = [column for column in wordy if column.distinct > column.filled / 2]
    found = max(named or differing, key=lambda column: column.words, default=None)
    return None if found is None else found.name


def _label_column(columns: Sequence[Column]) -> str | None:
    named = [column for name in LABELS for column in columns if column.known_as == name]
    if named:
        return named[0].name
    return columns[-1].name if columns else None


def _table(columns: Sequence[Column], label: str | None) -> Table:
    usable = [column for column in columns if column.filled and not column.identifies]
    target = label or _label_column([each for each in usable if each.classes or each.numeric])
    if target is None:
        raise InitError(
            "--label: found no column of texts, classes or numbers to learn, allowed: "
            f"{_listed([column.name for column in columns]) or 'a table with a header'}"
        )
    of = {column.name: column for column in columns}
    inputs = [column for column in usable if column.name != target]
    numbers = tuple(column.name for column in inputs if column.numeric)
    categories = tuple(
        column.name
        for column in inputs
        if not column.numeric and 2 <= column.distinct <= MOST_CATEGORIES
    )
    if not numbers and not categories:
        raise InitError(
            f"--label: found nothing beside {target!r} to predict it from, allowed: a table with "
            "columns of numbers or of a few categories, or one of texts (--text)"
        )
    quantity = of[target].numeric and not (
        of[target].whole and of[target].distinct <= MOST_CLASSES_IN_NUMBERS
    )
    return Table(
        target=target,
        task="numbers" if quantity else "classes",
        numbers=numbers,
        categories=categories,
        left_out=tuple(
            column.name for column in columns if column.name not in {target, *numbers, *categories}
        ),
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
