"""Whether a workload's data fit what it declares: the header and a sample of the rows of a csv,
jsonl or parquet file, before anything starts. Every misfit is one sentence: file, line and column,
what it is and what is expected.

A job reads the same formats with `training.data.tables`, in the Python of the oldest container, and
stops at the first fault. Here a person looks before anything starts, and wants to hear of all.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import json
import re
import reprlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from compilegate.datasets.sources import DatasetError, Declared, not_a_file, raw_data
from compilegate.workload import FilesData, FolderData

FORMATS = (".csv", ".jsonl", ".parquet")
MOST_BROKEN_LINES = 5
"""After so many lines that are no rows the rest is not looked at: it is another format."""
MOST_ROWS = 20_000
"""Rows of each file that are looked at: a fraction of a second."""
MOST_OF_A_KIND = 3
"""Sentences about one kind of misfit in one file; the others are counted."""

_UTF_8 = "expected text in UTF-8, which spreadsheets save as 'CSV UTF-8'"


@dataclass(frozen=True)
class Record:
    """One row, and where it stands."""

    place: str
    """`line 7` or, where there are no lines, `row 7`."""
    cells: Mapping[str, Any]


@dataclass
class Sample:
    """The first rows of a file, as far as they can be read."""

    columns: tuple[str, ...] = ()
    records: list[Record] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Sentences that begin with the place in the file."""
    whole: bool = True
    """Whether these are all rows."""
    separator: str = ","
    encoding: str = "utf-8"


class _UnreadableError(Exception):
    """The rest of the file cannot be read. The message is a fault."""


def read_sample(path: Path, most_rows: int | None = None, *, foreign: bool = False) -> Sample:
    """The first `most_rows` rows of a file, or all; what cannot be read is a fault of the sample.

    `foreign` takes a csv file as a spreadsheet writes it, and not only as jobs read it. Raises
    OSError where the file cannot be opened.
    """
    sample = Sample()
    readers = {".jsonl": _jsonl_rows, ".parquet": _parquet_rows}
    read = readers.get(path.suffix.lower(), partial(_csv_rows, foreign=foreign))
    try:
        for row in read(path, sample):
            if len(sample.records) == most_rows or len(sample.faults) == MOST_BROKEN_LINES:
                sample.whole = False
                break
            if isinstance(row, Record):
                sample.records.append(row)
            else:
                sample.faults.append(row)
    except _UnreadableError as error:
        sample.faults.append(str(error))
        sample.whole = False
    return sample


def _csv_rows(path: Path, sample: Sample, *, foreign: bool) -> Iterator[Record | str]:
    if foreign:
        _recognise(path.read_bytes(), sample)
    csv.field_size_limit(sys.maxsize)  # the default refuses documents over 128 KiB
    with path.open("rb") as file:
        lines = _decoded(file, sample.encoding)
        reader = csv.reader(lines, strict=True, delimiter=sample.separator)
        try:
            header = sample.columns = tuple(next(reader, []))
            _check_header(header, foreign=foreign)
            for cells in reader:
                if len(cells) == len(header):
                    yield Record(f"line {reader.line_num}", dict(zip(header, cells, strict=True)))
                elif cells:  # no empty line, as there often is at the end
                    yield (
                        f"line {reader.line_num} has {len(cells)} cell{'s' * (len(cells) != 1)}, "
                        f"expected {len(header)}, as in the header; quote texts that hold commas "
                        "or line breaks"
                    )
        except csv.Error as error:
            raise _UnreadableError(
                f"line {reader.line_num} is not valid csv ({error}), expected quotes in pairs, "
                'with "" for a quote in a text'
            ) from error


def _recognise(content: bytes, sample: Sample) -> None:
    """What separates the columns is what the header has most; text that is not UTF-8 is a
    spreadsheet's Windows-1252."""
    if b"\0" in content:
        raise _UnreadableError(f"holds NUL bytes, {_UTF_8}")
    header = re.sub(rb'"[^"]*"', b"", content.partition(b"\n")[0])
    sample.separator = max(",;\t|", key=lambda each: header.count(each.encode()))
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        sample.encoding = "cp1252"


def _decoded(lines: Iterator[bytes], encoding: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            yield line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").decode(encoding)
        except UnicodeDecodeError as error:
            raise _UnreadableError(
                f"line {number}, byte {error.start + 1} is 0x{line[error.start]:02x}, {_UTF_8}"
            ) from error


def _check_header(header: tuple[str, ...], *, foreign: bool) -> None:
    if not header:
        raise _UnreadableError("line 1 is empty, expected a header with the names of the columns")
    other = next((each for each in ";\t|" if len(header) == 1 and each in header[0]), None)
    if other and not foreign:
        raise _UnreadableError(
            f"line 1 has columns separated by {other!r}, expected ','; save the file with commas, "
            "or let `compilegate init FILE` do it"
        )
    for number, name in enumerate(header):
        # Spreadsheets write columns without a name behind the last one, which init leaves out.
        if name in header[:number] and (name or not foreign):
            raise _UnreadableError(
                f"line 1, column {number + 1} is {name!r} again, expected a distinct name for each "
                "column"
            )


def _jsonl_rows(path: Path, sample: Sample) -> Iterator[Record | str]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            cells: Any = None
            try:
                cells = json.loads(line.decode("utf-8").rstrip())
                problem = "" if isinstance(cells, dict) else f"is {reprlib.repr(cells)}"
            except json.JSONDecodeError as error:
                problem = f"is not valid JSON ({error.msg} at character {error.pos + 1})"
            except UnicodeDecodeError as error:
                problem = f"is not UTF-8 at byte {error.start + 1} (0x{line[error.start]:02x})"
            if problem:
                yield f"line {number} {problem}, expected a JSON object in each line"
                continue
            sample.columns = sample.columns or tuple(cells)
            yield Record(f"line {number}", cells)


def _parquet_rows(path: Path, sample: Sample) -> Iterator[Record | str]:
    try:
        import pyarrow  # noqa: PLC0415  needed for this format only
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise _UnreadableError(
            "not looked into, since pyarrow is not installed here: pip install 'compilegate[run]'"
        ) from error
    try:
        file = parquet.ParquetFile(path)
        sample.columns = tuple(file.schema_arrow.names)
        rows = chain.from_iterable(each.to_pylist() for each in file.iter_batches(2048))
        for number, cells in enumerate(rows, start=1):
            yield Record(f"row {number}", cells)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise _UnreadableError(f"not a parquet file ({error})") from error


def misfits(declared: Declared, base: Path, *, documents: bool, largest_step: int) -> list[str]:
    """What does not fit in data that lie on this machine; nothing is fetched.

    `base` is the folder of the workload's file. `documents` says that the built-in program reads
    the columns; a user's own program may read what it likes. `largest_step` is how many
    examples the largest step of any arm takes.
    """
    if isinstance(declared, FilesData):
        return list(_of_files(declared, base, documents=documents, largest_step=largest_step))
    if isinstance(declared, FolderData):
        try:
            raw_data(declared, base)
        except DatasetError as error:
            return list(error.problems)
    return []


def validation_rows(declared: Declared, base: Path) -> int | None:
    """How many examples models are compared on, where a small file says so at once."""
    if not isinstance(declared, FilesData):
        return None
    try:
        sample = read_sample(base / declared.validation, MOST_ROWS)
    except OSError:
        return None
    return len(sample.records) if sample.whole and sample.records else None


def _of_files(
    declared: FilesData, base: Path, *, documents: bool, largest_step: int
) -> Iterator[str]:
    samples: dict[str, Sample] = {}
    for key, name in (("train", declared.train), ("validation", declared.validation)):
        path = base / name
        if not path.is_file():
            yield not_a_file(key, path)
            continue
        try:
            sample = read_sample(path, MOST_ROWS)
        except OSError as error:
            yield f"{path}: cannot be read: {error.strerror}"
            continue
        faults = _first_of_a_kind(sample.faults)
        if documents:
            samples[key] = sample
            faults += _of_columns(declared, sample, validation=key == "validation")
        yield from (f"{path}: {fault}" for fault in faults)
    if len(samples) == 2:
        yield from _of_both(declared, base, samples, largest_step)


def _of_columns(declared: FilesData, sample: Sample, *, validation: bool) -> Iterator[str]:
    if not sample.records and not sample.faults:
        yield "no rows, expected one or more"
    if not sample.columns:
        return
    wanted = [("text", declared.text), ("label", declared.label)]
    if validation:  # only the models' comparison needs them
        wanted += [("slices", name) for name in declared.slices]
        wanted += [("groups", declared.groups)] if declared.groups not in declared.slices else []
    for key, column in [*wanted, ("id", declared.id)]:
        if column in sample.columns:
            yield from _first_of_a_kind(list(_wrong_cells(sample.records, key, column)))
        elif column is not None:
            yield f"line 1: {_missing(key, column, sample.columns)}"


def _missing(key: str, column: str, columns: tuple[str, ...]) -> str:
    lower = {name.strip().lower(): name for name in columns}
    close = difflib.get_close_matches(column.lower(), list(lower), n=1)
    hint = f" (did you mean {lower[close[0]]!r}?)" if close else ""
    named = ", ".join(map(repr, columns))
    return f"data.{key} is {column!r}, which is not a column{hint}, expected one of {named}"


def _wrong_cells(records: list[Record], key: str, column: str) -> Iterator[str]:
    """Cells that do not fit what the key of [data] wants of the column."""
    seen: dict[str, str] = {}
    for record in records:
        value = record.cells.get(column)
        found = f"is {reprlib.repr(value)}" if column in record.cells else "is missing"
        # bool is an int in Python, but a true among the labels is more likely a slip than a class.
        fits = value != "" and isinstance(value, str | int)
        expected = "a string that is not empty, or a whole number"
        if key == "text":
            fits = isinstance(value, str) and bool(value.strip())
            expected = "a text that is not empty; remove such rows"
        elif key in ("label", "id"):
            fits = fits and not isinstance(value, bool)
        if fits and key == "id":
            first = seen.setdefault(str(value), record.place)
            found, expected = f"{found}, as in {first}", "distinct identifiers"
            fits = first == record.place
        if not fits:
            yield f"{record.place}, column {column!r} {found}, expected {expected}"


def _of_both(
    declared: FilesData, base: Path, samples: Mapping[str, Sample], largest_step: int
) -> Iterator[str]:
    """What only shows when both files are known. What a sample does not hold may be further on."""
    train, label = samples["train"], declared.label
    if not train.whole or train.faults:
        return
    path = base / declared.train
    if 0 < len(train.records) < largest_step:
        yield (
            f"{path}: {len(train.records)} rows, expected {largest_step} or more, which is what "
            "one training step takes; lower batch_size of the arms"
        )
    known = {str(record.cells.get(label)) for record in train.records}
    if label not in train.columns:
        return
    if len(known) == 1:
        yield (
            f"{path}: column {label!r} is {known.pop()!r} in every row, expected two labels or more"
        )
        return
    unknown = [
        f"{record.place}, column {label!r} is {reprlib.repr(record.cells[label])}, expected a "
        f"label that {path.name} has"
        for record in samples["validation"].records
        if label in record.cells and str(record.cells[label]) not in known
    ]
    yield from (f"{base / declared.validation}: {each}" for each in _first_of_a_kind(unknown))


def _first_of_a_kind(faults: list[str]) -> list[str]:
    rest = faults[MOST_OF_A_KIND:]
    if not rest:
        return faults
    place = " ".join(rest[0].split()[:2]).rstrip(",:")
    return [*faults[:MOST_OF_A_KIND], f"{place}: the first of {len(rest)} more like these"]
