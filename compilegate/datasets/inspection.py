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
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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


class _UnreadableError(Exception):
    """The rest of the file cannot be read. The message is a fault."""


def read_sample(
    path: Path, most_rows: int | None = None, *, separator: str | None = None,
    encoding: str = "utf-8",
) -> Sample:  # fmt: skip
    """The first `most_rows` rows of a file, or all; what cannot be read is a fault of the sample.
    Without a separator a csv file has to be as jobs read it.

    Raises OSError where the file cannot be opened.
    """
    sample = Sample()
    readers = {".jsonl": _jsonl_rows, ".parquet": _parquet_rows}
    if path.suffix.lower() in readers:
        rows = readers[path.suffix.lower()](path, sample)
    else:
        rows = _csv_rows(path, sample, separator, encoding)
    broken = 0
    try:
        for row in rows:
            if len(sample.records) == most_rows:
                sample.whole = False
                break
            if isinstance(row, Record):
                sample.records.append(row)
                continue
            sample.faults.append(row)
            broken += 1
            if broken == MOST_BROKEN_LINES:
                raise _UnreadableError(f"{_place(row)}: the lines after it were not looked at")
    except _UnreadableError as error:
        sample.faults.append(str(error))
        sample.whole = False
    return sample


def _csv_rows(
    path: Path, sample: Sample, separator: str | None, encoding: str
) -> Iterator[Record | str]:
    csv.field_size_limit(sys.maxsize)  # the default refuses documents over 128 KiB
    with path.open("rb") as file:
        reader = csv.reader(_decoded(file, encoding), strict=True, delimiter=separator or ",")
        try:
            header = sample.columns = tuple(next(reader, []))
            _check_header(header, separator)
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


def _decoded(lines: Iterator[bytes], encoding: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            yield line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").decode(encoding)
        except UnicodeDecodeError as error:
            raise _UnreadableError(
                f"line {number}, byte {error.start + 1} is 0x{line[error.start]:02x}, expected "
                "text in UTF-8, which spreadsheets save as 'CSV UTF-8'"
            ) from error


def _check_header(header: tuple[str, ...], separator: str | None) -> None:
    if not header:
        raise _UnreadableError("line 1 is empty, expected a header with the names of the columns")
    other = next((each for each in ";\t|" if len(header) == 1 and each in header[0]), None)
    if other and separator is None:
        raise _UnreadableError(
            f"line 1 has columns separated by {other!r}, expected ','; save the file with commas, "
            "or let `compilegate init FILE` do it"
        )
    for number, name in enumerate(header):
        # Spreadsheets write columns without a name behind the last one, which init leaves out.
        if name in header[:number] and (name or separator is None):
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
                problem = "" if isinstance(cells, dict) else f"is {_shown(cells)}"
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
        number = 0
        for batch in file.iter_batches(batch_size=2048):
            for cells in batch.to_pylist():
                number += 1
                yield Record(f"row {number}", cells)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise _UnreadableError(f"not a parquet file ({error})") from error


def _shown(value: Any) -> str:
    """A value as a sentence shows it."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


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
    wanted = [("text", declared.text), ("label", declared.label), ("id", declared.id)]
    if validation:  # only the models' comparison needs them
        wanted += [("slices", name) for name in declared.slices]
        wanted += [("groups", declared.groups)] if declared.groups not in declared.slices else []
    for key, column in wanted:
        if column in sample.columns:
            yield from _first_of_a_kind(list(_wrong_cells(sample, column, *_EXPECTED[key])))
        elif column is not None:
            yield f"line 1: {_missing(key, column, sample.columns)}"
    if declared.id in sample.columns:
        yield from _first_of_a_kind(list(_repeated(sample.records, str(declared.id))))


def _missing(key: str, column: str, columns: tuple[str, ...]) -> str:
    lower = {name.strip().lower(): name for name in columns}
    close = difflib.get_close_matches(column.lower(), list(lower), n=1)
    hint = f" (did you mean {lower[close[0]]!r}?)" if close else ""
    named = ", ".join(map(repr, columns))
    return f"data.{key} is {column!r}, which is not a column{hint}, expected one of {named}"


def _is_name(value: Any) -> bool:
    # bool is an int in Python, but a true among the labels is more likely a slip than a class.
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


_NAME = "a string that is not empty, or a whole number"
_EXPECTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "text": (
        lambda value: isinstance(value, str) and bool(value.strip()),
        "a text that is not empty; remove such rows",
    ),
    **dict.fromkeys(("label", "id"), (_is_name, _NAME)),
    **dict.fromkeys(
        ("slices", "groups"), (lambda value: isinstance(value, bool) or _is_name(value), _NAME)
    ),
}
"""By the keys of [data]: what fits the column's cells, and how that is put."""


def _wrong_cells(
    sample: Sample, column: str, fits: Callable[[Any], bool], expected: str
) -> Iterator[str]:
    for record in sample.records:
        if not fits(record.cells.get(column)):
            found = f"is {_shown(record.cells[column])}" if column in record.cells else "is missing"
            yield f"{record.place}, column {column!r} {found}, expected {expected}"


def _repeated(records: list[Record], column: str) -> Iterator[str]:
    seen: dict[str, str] = {}
    for record in records:
        value = str(record.cells.get(column))
        if value in seen:
            yield (
                f"{record.place}, column {column!r} is {value!r}, as in {seen[value]}, expected "
                "distinct identifiers"
            )
        seen.setdefault(value, record.place)


def _of_both(
    declared: FilesData, base: Path, samples: Mapping[str, Sample], largest_step: int
) -> Iterator[str]:
    """What only shows when both files are known. What a sample does not hold may be further on."""
    train, validation = samples["train"], samples["validation"]
    if not train.whole or train.faults:
        return
    path = base / declared.train
    if train.records and len(train.records) < largest_step:
        yield (
            f"{path}: {len(train.records)} rows, expected {largest_step} or more, which is what "
            "one training step takes; lower batch_size of the arms"
        )
    label = declared.label
    if label not in train.columns:
        return
    known = {str(record.cells.get(label)) for record in train.records}
    if len(known) == 1:
        only = f"column {label!r} is {known.pop()!r} in every row"
        yield f"{path}: {only}, expected two labels or more"
        return
    unknown = [
        f"{record.place}, column {label!r} is {_shown(record.cells[label])}, expected a label "
        f"that {path.name} has"
        for record in validation.records
        if label in record.cells and str(record.cells[label]) not in known
    ]
    yield from (f"{base / declared.validation}: {each}" for each in _first_of_a_kind(unknown))


def _first_of_a_kind(faults: list[str]) -> list[str]:
    rest = faults[MOST_OF_A_KIND:]
    if not rest:
        return faults
    return [
        *faults[:MOST_OF_A_KIND],
        f"{_place(rest[0])}: the first of {len(rest)} more like these",
    ]


def _place(fault: str) -> str:
    """The place that a fault begins with, such as `line 7`."""
    return " ".join(fault.split()[:2]).rstrip(",:")
