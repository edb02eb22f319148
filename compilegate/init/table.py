"""A table that somebody brings: which column is learned, what the others hold, and its two parts.

A column of texts and one of classes make documents, which the built-in program classifies. Without
texts, one column is predicted from the others.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from compilegate.datasets.inspection import FORMATS, read_sample
from compilegate.errors import CompilegateError

TABLES = (*FORMATS, ".tsv")
TEXTS = frozenset((
    "abstract", "article", "body", "comment", "content", "description", "document", "headline",
    "message", "post", "query", "question", "review", "review_text", "sentence", "sms", "text",
    "texts", "title", "tweet", "utterance",
))  # fmt: skip
LABELS = ("label", "labels", "target", "class", "y", "outcome")
"""What a label is called whatever the table is about, the plainest first."""
TOPICAL_LABELS = frozenset((
    "attrition", "category", "churn", "diagnosis", "intent", "price", "rating", "score",
    "sentiment", "species", "stars", "survived", "topic",
))  # fmt: skip
"""What is usually a label, if only one column is called so."""
IDENTIFIERS = frozenset((
    "", "0", "guid", "id", "index", "key", "number", "rownames", "unnamed", "uuid",
))  # fmt: skip
MISSING = frozenset(("na", "n/a", "#n/a", "nan", "null", "?", "-", "inf", "-inf"))
"""How cells without a value are written, besides empty ones."""
DAYS = (
    "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%b %d %Y", "%b %d, %Y",
    "%d %b %Y", "%Y-%m",
)  # fmt: skip
TIMES = ("", " %H:%M", " %H:%M:%S")
"""Dates beside ISO 8601, as strptime has them; the first that fits all cells of a column counts."""
DECIMALS = (
    (re.compile(r"[-+]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?"), ",", "."),
    (re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?"), ".", ","),
)
"""How spreadsheets write numbers, in English and on the European continent: the form, what divides
the thousands, the decimal mark."""

MOST_CLASSES = 200
MOST_CLASSES_IN_NUMBERS = 20
"""Whole numbers of so few values are classes; of more, quantities."""
FEWEST_WORDS, WORDS_OF_DOCUMENTS = 2.5, 6
"""Words of a text on average. Of fewer than six they may be names, as of a ship's passengers."""
FEWEST_ROWS = 40
"""Before a fifth is held back to compare models on."""
VALIDATION_SHARE = 0.2


class InitError(CompilegateError):
    """The given file cannot be used; nothing was written."""


class UnclearLabelError(InitError):
    """Several columns could be the label."""

    def __init__(self, candidates: Collection[str]) -> None:
        super().__init__(
            "--label is missing and no column is plainly the label, expected one of "
            f"{listed(candidates)}"
        )
        self.candidates = candidates


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    cells: Sequence[str]
    """Values as the workload's files hold them: numbers with a point, dates in ISO 8601, "" for
    none."""
    kind: Literal["quantity", "count", "date", "category", "text"]
    """Counts are whole numbers of few values, and texts differ in more than half of the rows."""

    @property
    def number(self) -> bool:
        return self.kind in ("quantity", "count")

    @cached_property
    def filled(self) -> list[str]:
        return [cell for cell in self.cells if cell]

    @cached_property
    def distinct(self) -> int:
        return len(set(self.filled))

    @cached_property
    def words(self) -> float:
        """Mean length."""
        return sum(len(text.split()) for text in self.filled) / max(1, len(self.filled))

    @cached_property
    def known_as(self) -> str:
        """The column's name in lower case, words joined by underscores: SalePrice is sale_price."""
        parted = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", self.name)
        return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")

    @cached_property
    def identifies(self) -> bool:
        """Whether each row has a value of its own, under an identifier's name or counted up."""
        if not self.distinct == len(self.filled) > 0:
            return False
        counted = [[str(first + n) for n in range(self.distinct)] for first in (0, 1)]
        named = self.known_as in IDENTIFIERS or self.known_as.endswith(("_id", "_0"))
        return named or self.filled in counted

    @property
    def classes(self) -> bool:
        """Whether a model could tell these values apart as classes."""
        few = 2 <= self.distinct <= min(MOST_CLASSES, len(self.filled) // 4)
        return few and self.kind in ("count", "category")


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
    dates: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Columns that say nothing: identifiers, names that differ in most rows, constant ones."""


@dataclass(frozen=True)
class Table:
    """All rows of a file, by columns, with sentences on how they were read."""

    path: Path
    columns: Mapping[str, Column]
    notes: tuple[str, ...]

    def split(self, roles: Roles) -> tuple[list[int], list[int]]:
        """The numbers of the rows to train on and of those held back, without those that lack the
        label or the text. Raises InitError where that leaves too little."""
        label = self.columns[roles.label].cells
        same = self.columns if roles.text is None else (roles.text,)
        contents = list(map("\0".join, zip(*(self.columns[n].cells for n in same), strict=True)))
        rows = [n for n, value in enumerate(label) if value and contents[n]]
        needed = [name for name in (roles.text, roles.label) if name is not None]
        _refuse_few(self.path, len(rows), f"with {' and '.join(map(repr, needed))}")
        kinds = label if roles.task == "classes" else [""] * len(label)
        held_back = held_back_rows({n: (kinds[n], contents[n]) for n in rows})
        values = {label[n] for n in rows}
        if len(values) < 2 or not held_back:
            raise InitError(
                f"{self.path}: column {roles.label!r} has {len(values)} distinct values in "
                f"{len(rows)} rows, expected two or more, one of them in five different rows; "
                "--label COLUMN names another"
            )
        return [n for n in rows if n not in held_back], sorted(held_back)

    def csv(self, rows: Sequence[int]) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([each.cells[n] for each in self.columns.values()] for n in rows)
        return text.getvalue().encode(errors="replace")


def held_back_rows(rows: Mapping[int, tuple[str, str]]) -> set[int]:
    """The rows to compare models on, a fifth of each class; `rows` has classes and contents.

    They are drawn by a digest of their content, so that neither their order nor chance decides.
    Rows of one content stay together: no model is compared on what it was trained on.
    """
    contents: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, (kind, content) in rows.items():
        digest = hashlib.sha256(content.encode(errors="replace")).hexdigest()
        contents[kind][digest].append(number)
    chosen: set[int] = set()
    for alike in contents.values():
        wanted = len(chosen) + round(sum(map(len, alike.values())) * VALIDATION_SHARE)
        for digest in sorted(alike)[:-1]:  # the last stays: something has to be trained on
            if len(chosen) < wanted:
                chosen |= set(alike[digest])
    return chosen


def read_table(path: Path) -> Table:
    """Read all rows of a csv, tsv, jsonl or parquet file. Raises InitError."""
    try:
        sample = read_sample(path, foreign=True)
    except OSError as error:
        raise InitError(f"{path} cannot be read: {error.strerror}") from error
    if not sample.whole:
        raise InitError(*(f"{path}: {fault}" for fault in sample.faults))
    names = tuple(dict.fromkeys((*sample.columns, *(n for r in sample.records for n in r.cells))))
    numbers = [number for number in map(_number, names) if number is not None]
    if names and (len(numbers) == len(names) or not all(each.is_integer() for each in numbers)):
        raise InitError(f"{path}: line 1 is {', '.join(names)}, expected the names of the columns")
    _refuse_few(path, len(sample.records), "that can be read")
    notes = [f"left out: {path}: {fault}" for fault in sample.faults]
    if (sample.separator, sample.encoding) != (",", "utf-8"):
        encoding = {"utf-8": "UTF-8", "cp1252": "Windows-1252"}[sample.encoding]
        notes.append(f"read as {encoding}, with columns separated by {sample.separator!r}")
    columns = {}
    for name in names:
        cells = [_text(row.cells.get(name)) for row in sample.records]
        if name or any(cells):  # spreadsheets write empty columns behind the last one
            columns[name] = column_of(name, cells, continental=sample.separator != ",")
    return Table(path, columns, tuple(notes))


def column_of(name: str, cells: Sequence[str], *, continental: bool = False) -> Column:
    """Tell what a column holds; `continental` is which decimal mark is tried first."""
    if not any(cells):
        return Column(name, cells, "category")
    numbers = _as_numbers(cells, continental=continental)
    if numbers is not None:
        values = {cell for cell in numbers if cell}
        few = len(values) <= MOST_CLASSES_IN_NUMBERS
        counts = few and all(float(value).is_integer() for value in values)
        return Column(name, numbers, "count" if counts else "quantity")
    for form in (None, *(day + time for day in DAYS for time in TIMES)):
        try:
            return Column(name, [cell and _iso_date(cell, form) for cell in cells], "date")
        except ValueError:
            continue
    filled = [cell for cell in cells if cell]
    return Column(name, cells, "category" if len(set(filled)) <= len(filled) / 2 else "text")


def roles_of(
    columns: Mapping[str, Column],
    subject: str,
    *,
    text: str | None = None,
    label: str | None = None,
) -> Roles:
    """What each column is for; `subject` is the file's name, and `text` and `label` are options.

    Raises InitError where that is unclear, with the columns and the option that decides.
    """
    for option, given in (("--text", text), ("--label", label)):
        if given is not None and given not in columns:
            raise InitError(f"{option} is {given!r}, expected one of {listed(columns)}")
    texts = text or _text_column([each for name, each in columns.items() if name != label])
    rest = [each for name, each in columns.items() if name != texts and not each.identifies]
    target = columns[label or _label(rest, subject, texts)]
    quantity = target.kind == "quantity"
    if quantity and text is None:
        texts = None
    odd = [cell for cell in target.filled if _number(cell) is None]
    # Among numbers, a word is more likely a slip than a class.
    most = MOST_CLASSES if 2 * len(odd) >= len(target.filled) else MOST_CLASSES_IN_NUMBERS
    if target.kind == "date" or (texts is not None if quantity else target.distinct > most):
        raise InitError(
            f"--label is {target.name!r}, with {target.distinct:,} values such as "
            f"{(odd or target.filled)[0]!r}, expected {'' if texts else 'numbers, or '}2 to {most} "
            "classes"
        )
    if texts is not None:
        found = (name for name, each in columns.items() if name and each.identifies)
        return Roles(text=texts, label=target.name, identifier=next(found, None))
    inputs = [each for each in rest if each is not target and each.distinct >= 2]
    numbers, dates, categories = (
        tuple(each.name for each in inputs if each.kind in kinds)
        for kinds in (("quantity", "count"), ("date",), ("category",))
    )
    used = {target.name, *numbers, *dates, *categories}
    if len(used) == 1:
        raise InitError(
            f"--label is {target.name!r} and no other column can predict it, expected columns of "
            "numbers, dates or repeated words, or one of texts (--text)"
        )
    return Roles(
        label=target.name, task="numbers" if quantity else "classes", numbers=numbers,
        categories=categories, dates=dates, left_out=tuple(n for n in columns if n not in used),
    )  # fmt: skip


def listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))


def _text_column(columns: Sequence[Column]) -> str | None:
    """Short texts count if their column is called so and few columns hold numbers."""
    numbers = sum(each.number and not each.identifies for each in columns)
    fewest = FEWEST_WORDS if numbers <= 2 else WORDS_OF_DOCUMENTS
    words = [each for each in columns if each.kind in ("category", "text")]
    found = [each for each in words if each.known_as in TEXTS and each.words >= fewest]
    found = found or [e for e in words if e.kind == "text" and e.words >= WORDS_OF_DOCUMENTS]
    return max(found, key=lambda each: each.words).name if found else None


def _label(columns: Sequence[Column], subject: str, texts: str | None) -> str:
    """The column that a person would take; raises UnclearLabelError where several would do, or
    none."""
    about = {_stem(each) for each in re.split(r"[^a-z0-9]+", subject.lower())}
    parts = {each.name: each.known_as.split("_") for each in columns}
    fitting = [
        each.name
        for each in columns
        if each.classes or (texts is None and each.number and each.distinct >= 2)
    ]
    rules = [
        [each.name for name in LABELS for each in columns if each.known_as == name][:1],
        [name for name, words in parts.items() if {_stem(word) for word in words} <= about],
        [name for name, words in parts.items() if "price" in words],
        [each.name for each in columns if each.known_as in TOPICAL_LABELS],
        fitting,
    ]
    for names in rules:
        if len(names) == 1:
            return names[0]
    raise UnclearLabelError(fitting or tuple(parts))


def _stem(word: str) -> str:
    """What `churn` and `churned`, `price` and `prices` have in common."""
    return re.sub(r"(?<=[a-z]{3})(ed|er|ing|e|s)+$", "", word)


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


def _as_numbers(cells: Sequence[str], *, continental: bool) -> Sequence[str] | None:
    """The cells as numbers with a decimal point, or None where some is no number."""
    if all(_number(cell) is not None for cell in cells if cell):
        return cells
    bare = [cell.strip("$€£% ") for cell in cells]
    for form, thousands, mark in reversed(DECIMALS) if continental else DECIMALS:
        if all(form.fullmatch(cell) for cell in bare if cell):
            return [cell.replace(thousands, "").replace(mark, ".") for cell in bare]
    return None


def _iso_date(cell: str, form: str | None) -> str:
    """A date in ISO 8601, written in it already or in a form of strptime. Raises ValueError."""
    date = datetime.fromisoformat(cell) if form is None else datetime.strptime(cell, form)  # noqa: DTZ007
    return date.isoformat().removesuffix("T00:00:00")


def _refuse_few(path: Path, rows: int, which: str) -> None:
    if rows < FEWEST_ROWS:
        raise InitError(
            f"{path} has {rows} rows {which}, expected {FEWEST_ROWS} or more, of which a fifth is "
            "held back to compare models on"
        )
