"""Reads the split files that users bring: csv, jsonl or parquet with a text and a label column.

Further columns may hold categories, by which the validation data can be cut into slices.
"""

from __future__ import annotations

import csv
import difflib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from compilegate.job import InputError

Records = Iterator[Tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Columns:
    """The names of the columns to read."""

    text: str
    label: str
    identifier: Optional[str] = None
    slices: Tuple[str, ...] = ()
    """Columns of categories."""
    slices_needed: bool = True
    """False: a category that is missing or no text is left empty."""

    @property
    def by_key(self) -> List[Tuple[str, str]]:
        """Each with the key of a workload that names it."""
        known = [("data.text", self.text), ("data.label", self.label)]
        if self.identifier is not None:
            known.append(("data.id", self.identifier))
        needed = self.slices if self.slices_needed else ()
        return [*known, *(("data.slices", name) for name in needed)]


@dataclass(frozen=True)
class Row:
    """One document of a split."""

    text: str
    label: str
    identifier: Optional[str]
    place: str
    """Where the row stood in its file, for messages: "line 7" or "row 7"."""
    categories: Tuple[str, ...] = ()
    """One for each of the columns' `slices`."""


def read_split(folder: Path, split: str, columns: Columns) -> List[Row]:
    """Read the one file ``SPLIT.csv``, ``SPLIT.jsonl`` or ``SPLIT.parquet`` of a folder.

    Labels, identifiers and categories are read as text, whether the file holds strings or whole
    numbers; a category may be true or false as well. Raises InputError for no file or several, a
    missing column, a row that cannot be read, an empty text or label, or no rows at all.
    """
    path = _only_file(folder, split)
    rows = [_row(path, place, record, columns) for place, record in _READERS[path.suffix](path)]
    if not rows:
        raise InputError(f"{path.name} holds no rows; the {split} split needs at least one")
    empty = [row for row in rows if not row.text.strip()]
    if empty:
        raise InputError(
            f"{path.name}: {len(empty)} of {len(rows)} texts are empty, the first in "
            f"{empty[0].place}; remove these rows"
        )
    return rows


def _only_file(folder: Path, split: str) -> Path:
    if not folder.is_dir():
        raise InputError(f"the data folder {folder} does not exist")
    candidates = [folder / f"{split}{suffix}" for suffix in _READERS]
    found = [path for path in candidates if path.is_file()]
    if not found:
        allowed = ", ".join(path.name for path in candidates)
        present = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise InputError(f"no {split} file in {folder}: expected one of {allowed}; found {present}")
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise InputError(f"{folder} holds {names}; keep exactly one file for the {split} split")
    return found[0]


def _row(path: Path, place: str, record: Mapping[str, Any], columns: Columns) -> Row:
    for key, column in columns.by_key:
        if column not in record:
            raise InputError(f"{path.name} {place}: {_without(key, column, record)}")
    text = record[columns.text]
    if not isinstance(text, str):
        raise InputError(
            f"{path.name} {place}: column {columns.text!r} holds {_shown(text)}, expected a string"
        )
    identifier = columns.identifier
    return Row(
        text=text,
        label=_name(path, place, columns.label, record[columns.label]),
        identifier=None
        if identifier is None
        else _name(path, place, identifier, record[identifier]),
        place=place,
        categories=tuple(_category(path, place, name, record, columns) for name in columns.slices),
    )


def _without(key: str, column: str, record: Mapping[str, Any]) -> str:
    """What to say of a column that is not there."""
    alike = difflib.get_close_matches(
        column.lower(), [name.strip().lower() for name in record], n=1
    )
    meant = [name for name in record if name.strip().lower() in alike]
    hint = f" (did you mean {meant[0]!r}?)" if meant else ""
    return (
        f"no column {column!r}{hint}; there are: {', '.join(record) or 'none'}; {key} of the "
        "workload says which it is"
    )


def _category(
    path: Path, place: str, column: str, record: Mapping[str, Any], columns: Columns
) -> str:
    value = record.get(column)
    if isinstance(value, bool):
        return str(value).lower()
    if not columns.slices_needed:
        return str(value) if isinstance(value, (str, int)) else ""
    return _name(path, place, column, value)


def _name(path: Path, place: str, column: str, value: Any) -> str:
    """A label, identifier or category as text."""
    # bool is an int in Python, but a true among the labels is more likely a slip than a class.
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InputError(
            f"{path.name} {place}: column {column!r} holds {_shown(value)}, "
            "expected a string that is not empty or a whole number"
        )
    return str(value)


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."


def _read_csv(path: Path) -> Records:
    csv.field_size_limit(sys.maxsize)  # the default refuses documents over 128 KiB
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            header = next(reader, [])
            _check_header(path, header)
            for cells in reader:
                place = f"line {reader.line_num}"
                if not cells:
                    continue  # an empty line, as there often is at the end
                if len(cells) != len(header):
                    raise InputError(
                        f"{path.name} {place}: {len(cells)} cells where the header has "
                        f"{len(header)}; quote texts that hold commas or line breaks"
                    )
                yield place, dict(zip(header, cells))
        except csv.Error as error:
            raise InputError(f"{path.name} line {reader.line_num}: {error}") from error
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path.name} is not UTF-8 text (its byte {error.start + 1} is "
                f"0x{error.object[error.start]:02x}); save it as UTF-8, which spreadsheets call "
                "'CSV UTF-8'"
            ) from error


def _check_header(path: Path, header: Sequence[str]) -> None:
    """Raises InputError for one that no row can be read by."""
    if len(header) == 1:
        separator = next((each for each in (";", "\t", "|") if each in header[0]), None)
        if separator is not None:
            raise InputError(
                f"{path.name} line 1: the columns are separated by {separator!r}, expected ','; "
                "save the file with commas"
            )
    repeated = [name for number, name in enumerate(header) if name in header[:number]]
    if repeated:
        raise InputError(
            f"{path.name} line 1: the header holds {repeated[0]!r} more than once, expected a name "
            "of its own for each column"
        )


def _read_jsonl(path: Path) -> Records:
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            place = f"line {number}"
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode("utf-8"))
            except ValueError as error:
                raise InputError(f"{path.name} {place} is not a JSON object: {error}") from error
            if not isinstance(record, dict):
                raise InputError(
                    f"{path.name} {place} holds {_shown(record)}, expected a JSON object"
                )
            yield place, record


def _read_parquet(path: Path) -> Records:
    try:
        import pyarrow  # noqa: PLC0415 - only who brings parquet needs pyarrow
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise InputError(
            f"{path.name} needs pyarrow, which is not installed; bring csv or jsonl, "
            "or add pyarrow to the image's requirements.txt"
        ) from error
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{path.name} is not readable parquet: {error}") from error
    for number, record in enumerate(table.to_pylist(), start=1):
        yield f"row {number}", record


_READERS: Dict[str, Callable[[Path], Records]] = {
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
