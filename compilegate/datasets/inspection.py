"""Whether a workload's data fit what it declares: the header and a sample of the rows of a csv,
jsonl or parquet file, before anything starts. Every misfit is one sentence: file, line and column,
what was found and what is allowed.

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

from compilegate.datasets.sources import DatasetError, raw_data
from compilegate.workload import FilesData, FolderData, HubData, ReutersData, WheelData

SEPARATORS = (";", "\t", "|")
"""What columns are separated by where it is not a comma."""
FORMATS = (".csv", ".jsonl", ".parquet")
WINDOWS = "cp1252"
MOST_BROKEN_LINES = 5
"""After so many lines that are no rows the rest is not looked at: it is another format."""
MOST_ROWS = 20_000
"""Rows of each file that are looked at: a fraction of a second."""
MOST_OF_A_KIND = 3
"""Sentences about one kind of misfit in one file; the others are counted."""

Declared = ReutersData | FilesData | FolderData | HubData | WheelData


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
    """Sentences: place, what was found, what is allowed. Without the file's name."""
    whole: bool = True
    """Whether these are all rows."""
    broken_lines: int = 0

    def break_at(self, place: str, fault: str) -> None:
        """Note a line that is no row."""
        self.faults.append(f"{place}: {fault}")
        self.broken_lines += 1
        if self.broken_lines == MOST_BROKEN_LINES:
            raise _BrokenError(f"{place}: the lines after it were not looked at")


class _BrokenError(Exception):
    """The rest of the file cannot be read. The message is a fault."""


def read_sample(
    path: Path, most_rows: int | None = None, *, separator: str = ",", encoding: str = "utf-8"
) -> Sample:
    """The first `most_rows` rows of a file, or all; what cannot be read is a fault of the sample.
    A csv file is written as jobs read it, unless `separator` and `encoding` differ.

    Raises OSError where the file cannot be opened.
    """
    sample = Sample()
    if path.suffix == ".csv":
        rows = _csv_rows(path, sample, separator, encoding)
    else:
        rows = {".jsonl": _jsonl_rows, ".parquet": _parquet_rows}[path.suffix](path, sample)
    try:
        for record in rows:
            if len(sample.records) == most_rows:
                sample.whole = False
                break
            sample.records.append(record)
    except _BrokenError as error:
        sample.faults.append(str(error))
        sample.whole = False
    return sample


def how_written(path: Path) -> tuple[str, str]:
    """The separator and encoding of a csv file, as far as they show: a comma separates its columns
    unless its header has none and another separator; what is no UTF-8 is a spreadsheet's
    Windows-1252.

    Raises OSError where the file cannot be read.
    """
    content = path.read_bytes()
    header = content.partition(b"\n")[0].decode("utf-8", errors="replace")
    others = [each for each in SEPARATORS if each in header]
    separator = others[0] if others and "," not in header else ","
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return separator, WINDOWS
    return separator, "utf-8"


def _csv_rows(path: Path, sample: Sample, separator: str, encoding: str) -> Iterator[Record]:
    csv.field_size_limit(sys.maxsize)  # the default refuses documents over 128 KiB
    with path.open("rb") as file:
        reader = csv.reader(_decoded(file, encoding), strict=True, delimiter=separator)
        try:
            sample.columns = tuple(next(reader, []))
            _check_header(sample, separator)
            for cells in reader:
                place = f"line {reader.line_num}"
                if not cells:
                    continue  # an empty line, as there often is at the end
                if len(cells) != len(sample.columns):
                    sample.break_at(
                        place,
                        f"found {len(cells)} cell{'s' * (len(cells) != 1)}, allowed: "
                        f"{len(sample.columns)}, as in the header; quote texts that hold commas or "
                        "line breaks",
                    )
                    continue
                yield Record(place, dict(zip(sample.columns, cells, strict=True)))
        except csv.Error as error:
            raise _BrokenError(
                f"line {reader.line_num}: found what is no csv ({error}), allowed: quotes in "
                'pairs, with "" for a quote in a text'
            ) from error


def _decoded(lines: Iterator[bytes], encoding: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            yield line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").decode(encoding)
        except UnicodeDecodeError as error:
            raise _BrokenError(
                f"line {number}, byte {error.start + 1}: found 0x{line[error.start]:02x}, allowed: "
                "text in UTF-8, which spreadsheets save as 'CSV UTF-8'"
            ) from error


def _check_header(sample: Sample, separator: str) -> None:
    header = sample.columns
    if not header:
        raise _BrokenError("line 1: found no header, allowed: the names of the columns")
    if len(header) == 1:
        other = next((each for each in SEPARATORS if each in header[0] and each != separator), None)
        if other is not None:
            raise _BrokenError(
                f"line 1: found columns that are separated by {other!r}, allowed: ','; save the "
                "file with commas, or let `compilegate init FILE` do it"
            )
    repeated = [name for number, name in enumerate(header) if name in header[:number]]
    if repeated:
        sample.faults.append(
            f"line 1, column {header.index(repeated[0], header.index(repeated[0]) + 1) + 1}: found "
            f"{repeated[0]!r} again, allowed: a name of its own for each column"
        )


def _jsonl_rows(path: Path, sample: Sample) -> Iterator[Record]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            place = f"line {number}"
            cells: Any = None
            try:
                cells = json.loads(line.decode("utf-8").rstrip())
                problem = None if isinstance(cells, dict) else f"found {_shown(cells)}"
            except json.JSONDecodeError as error:
                problem = f"found what is no JSON ({error.msg} at character {error.pos + 1})"
            except UnicodeDecodeError as error:
                problem = f"found 0x{line[error.start]:02x} at byte {error.start + 1}, no UTF-8"
            if problem is not None:
                sample.break_at(place, f"{problem}, allowed: a JSON object in each line")
                continue
            sample.columns = sample.columns or tuple(cells)
            yield Record(place, cells)


def _parquet_rows(path: Path, sample: Sample) -> Iterator[Record]:
    try:
        import pyarrow  # noqa: PLC0415  needed for this format only
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise _BrokenError(
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
        raise _BrokenError(f"found what is no parquet ({error}), allowed: a parquet file") from None


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
    path = base / declared.validation
    try:
        sample = read_sample(path, MOST_ROWS)
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
            yield (
                f"data.{key}: {path} is not a file, allowed: a file, with a path relative to the "
                "workload's file"
            )
            continue
        try:
            sample = read_sample(path, MOST_ROWS)
        except OSError as error:
            yield f"{path}: cannot be read: {error.strerror}"
            continue
        yield from (f"{path}: {fault}" for fault in _first_of_a_kind(sample.faults))
        if not documents:
            continue
        samples[key] = sample
        for fault in _of_columns(declared, sample, validation=key == "validation"):
            yield f"{path}: {fault}"
    if documents and len(samples) == 2:
        yield from _of_both(declared, base, samples, largest_step)


def _of_columns(declared: FilesData, sample: Sample, *, validation: bool) -> Iterator[str]:
    if not sample.columns:
        if not sample.faults:
            yield "found no rows, allowed: one or more"
        return
    wanted: list[tuple[str, str, Callable[[Any], str | None]]] = [
        ("data.text", declared.text, _wrong_text),
        ("data.label", declared.label, _wrong_name),
    ]
    if declared.id is not None:
        wanted.append(("data.id", declared.id, _wrong_name))
    if validation:  # only the models' comparison needs them
        wanted += [("data.slices", name, _wrong_category) for name in declared.slices]
        if declared.groups is not None and declared.groups not in declared.slices:
            wanted.append(("data.groups", declared.groups, _wrong_category))
    for key, column, wrong in wanted:
        if column not in sample.columns:
            yield f"line 1: {_missing(key, column, sample.columns)}"
        else:
            yield from _first_of_a_kind(list(_wrong_cells(sample, column, wrong)))
    if not sample.records and not sample.faults:
        yield "found a header and no rows, allowed: one or more rows"
    if declared.id in sample.columns:
        yield from _first_of_a_kind(list(_repeated(sample.records, str(declared.id))))


def _missing(key: str, column: str, columns: tuple[str, ...]) -> str:
    lower = {name.strip().lower(): name for name in columns}
    close = difflib.get_close_matches(column.lower(), list(lower), n=1)
    hint = f" (did you mean {lower[close[0]]!r}?)" if close else ""
    return (
        f"found no column {column!r}, which {key} names{hint}, allowed: "
        f"{', '.join(map(repr, columns))}"
    )


def _wrong_cells(sample: Sample, column: str, wrong: Callable[[Any], str | None]) -> Iterator[str]:
    for record in sample.records:
        allowed = wrong(record.cells.get(column))
        if allowed is not None:
            found = _shown(record.cells[column]) if column in record.cells else "nothing"
            yield f"{record.place}, column {column!r}: found {found}, allowed: {allowed}"


def _wrong_text(value: Any) -> str | None:
    fits = isinstance(value, str) and value.strip()
    return None if fits else "a text that is not empty; remove such rows"


def _wrong_name(value: Any) -> str | None:
    # bool is an int in Python, but a true among the labels is more likely a slip than a class.
    fits = isinstance(value, str | int) and not isinstance(value, bool) and value != ""
    return None if fits else "a string that is not empty, or a whole number"


def _wrong_category(value: Any) -> str | None:
    return None if isinstance(value, bool) else _wrong_name(value)


def _repeated(records: list[Record], column: str) -> Iterator[str]:
    seen: dict[str, str] = {}
    for record in records:
        value = str(record.cells.get(column))
        if value in seen:
            yield (
                f"{record.place}, column {column!r}: found {value!r}, which {seen[value]} has "
                "too, allowed: identifiers that differ"
            )
        else:
            seen[value] = record.place


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
            f"{path}: found {len(train.records)} rows, allowed: {largest_step} or more, which is "
            "what one training step takes; lower batch_size of the arms"
        )
    if declared.label not in train.columns:
        return
    known = {str(record.cells.get(declared.label)) for record in train.records}
    if len(known) == 1:
        yield (
            f"{path}: column {declared.label!r}: found {known.pop()!r} in every row, allowed: two "
            "labels or more"
        )
        return
    unknown = [
        f"{record.place}, column {declared.label!r}: found {_shown(record.cells[declared.label])}, "
        f"allowed: a label that {path.name} has"
        for record in validation.records
        if declared.label in record.cells and str(record.cells[declared.label]) not in known
    ]
    yield from (f"{base / declared.validation}: {each}" for each in _first_of_a_kind(unknown))


def _first_of_a_kind(faults: list[str]) -> list[str]:
    rest = len(faults) - MOST_OF_A_KIND
    if rest <= 0:
        return faults
    place = faults[MOST_OF_A_KIND].partition(":")[0]
    return [*faults[:MOST_OF_A_KIND], f"{place}: and so in {rest} more places from here on"]
