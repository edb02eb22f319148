"""Reads the split files that users bring: csv, jsonl or parquet with a text and a label column.

Further columns may hold categories, by which the validation data can be cut into slices.
`compilegate.datasets.inspection` looks at local files before anything starts, and gives more advice
than the errors here.
"""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from compilegate.job import InputError

Records = Iterator[Tuple[str, Mapping[str, Any]]]
"""Rows by column, each after its place in the file: "line 7" or "row 7"."""


@dataclass(frozen=True)
class Columns:
    """The names of the columns to read."""

    text: str
    label: str
    identifier: Optional[str] = None
    slices: Sequence[str] = ()  # columns of categories


@dataclass(frozen=True)
class Row:
    """One document of a split."""

    text: str
    label: str
    identifier: Optional[str]
    place: str  # in its file, for messages
    categories: Tuple[str, ...] = ()  # one for each of the columns' `slices`


def read_split(folder: Path, split: str, columns: Columns) -> List[Row]:
    """Read the one file ``SPLIT.csv``, ``SPLIT.jsonl`` or ``SPLIT.parquet`` of a folder.

    Labels, identifiers and categories are read as text, whether the file holds strings or whole
    numbers; a category may be true or false as well. In the training split it may be missing, and
    is empty then. Raises InputError for no file or several, a missing column, a row that cannot be
    read, an empty text or label, or no rows at all.
    """
    path = _only_file(folder, split)
    with_slices = split != "train"
    rows = [
        _row(f"{path.name} {place}", place, record, columns, with_slices)
        for place, record in _READERS[path.suffix](path)
    ]
    if not rows:
        raise InputError(f"{path.name} holds no rows; the {split} split needs at least one")
    return rows


def _only_file(folder: Path, split: str) -> Path:
    if not folder.is_dir():
        raise InputError(f"the data folder {folder} does not exist")
    candidates = [folder / f"{split}{suffix}" for suffix in _READERS]
    files = [path for path in candidates if path.is_file()]
    if len(files) != 1:
        allowed = ", ".join(path.name for path in candidates)
        present = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise InputError(f"{folder} must hold one of {allowed}; it holds {present}")
    return files[0]


def _row(
    where: str, place: str, record: Mapping[str, Any], columns: Columns, with_slices: bool
) -> Row:
    needed = {columns.text: "data.text", columns.label: "data.label"}
    if columns.identifier is not None:
        needed[columns.identifier] = "data.id"
    if with_slices:
        needed.update(dict.fromkeys(columns.slices, "data.slices"))
    for column, key in needed.items():
        if column not in record:
            raise InputError(
                f"{where}: no column {column!r}; there are: {', '.join(record) or 'none'}; {key} "
                "of the workload names it"
            )
    text = record[columns.text]
    if not isinstance(text, str) or not text.strip():
        raise _wrong(where, columns.text, text, "a string that is not empty")
    identifier = columns.identifier
    return Row(
        text=text,
        label=_name(where, columns.label, record),
        identifier=None if identifier is None else _name(where, identifier, record),
        place=place,
        categories=tuple(_category(where, name, record, with_slices) for name in columns.slices),
    )


def _name(where: str, column: str, record: Mapping[str, Any]) -> str:
    """A label, identifier or category as text."""
    value = record[column]
    # bool is an int in Python, but a true among the labels is more likely a slip than a class.
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise _wrong(where, column, value, "a string that is not empty or a whole number")
    return str(value)


def _category(where: str, column: str, record: Mapping[str, Any], needed: bool) -> str:
    value = record.get(column)
    if isinstance(value, bool):
        return str(value).lower()
    if needed:
        return _name(where, column, record)
    return str(value) if isinstance(value, (str, int)) else ""


def _wrong(where: str, column: str, value: Any, expected: str) -> InputError:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    return InputError(f"{where}: column {column!r} holds {shown}, expected {expected}")


def _read_csv(path: Path) -> Records:
    csv.field_size_limit(sys.maxsize)  # the default refuses documents over 128 KiB
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            header = next(reader, [])
            if len(set(header)) < len(header):
                raise InputError(f"{path.name} line 1: the header holds a column more than once")
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
                f"{path.name} is not UTF-8 text (byte {error.start + 1} is "
                f"0x{error.object[error.start]:02x}); save it as UTF-8"
            ) from error


def _read_jsonl(path: Path) -> Records:
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode("utf-8"))
            except ValueError as error:
                raise InputError(
                    f"{path.name} line {number} is not a JSON object: {error}"
                ) from error
            if not isinstance(record, dict):
                raise InputError(f"{path.name} line {number} is not a JSON object")
            yield f"line {number}", record


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
