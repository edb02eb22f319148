"""A sample of a csv, jsonl or parquet file that people bring, and everything that is wrong with it.

A job reads the same formats with `training.data.tables`, in the Python of the oldest container, and
stops at the first fault. Here a person looks before anything starts, and wants to hear of all.
"""

from __future__ import annotations

import codecs
import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SEPARATORS = (";", "\t", "|")
"""What columns are separated by where it is not a comma."""
FORMATS = (".csv", ".jsonl", ".parquet")
MOST_BROKEN_LINES = 5
"""After so many lines that are no rows the rest is not looked at: it is another format."""


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


@dataclass(frozen=True)
class Written:
    """How a csv file is written."""

    separator: str = ","
    encoding: str = "utf-8"


WINDOWS = "cp1252"
COMMAS_IN_UTF8 = Written()
"""What jobs read."""


class _BrokenError(Exception):
    """The rest of the file cannot be read. The message is a fault."""


def read_sample(
    path: Path, most_rows: int | None = None, written: Written = COMMAS_IN_UTF8
) -> Sample:
    """The first `most_rows` rows of a file, or all; what cannot be read is a fault of the sample.

    Raises OSError where the file cannot be opened.
    """
    sample = Sample()
    rows = _READERS[path.suffix](path, sample, written)
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


def how_written(path: Path) -> Written:
    """How a csv file is written, as far as it shows: a comma separates its columns unless its
    header has none and another separator; what is no UTF-8 is a spreadsheet's Windows-1252.

    Raises OSError where the file cannot be read.
    """
    content = path.read_bytes()
    header = content.partition(b"\n")[0].decode("utf-8", errors="replace")
    others = [each for each in SEPARATORS if each in header]
    separator = others[0] if others and "," not in header else ","
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return Written(separator, WINDOWS)
    return Written(separator)


def _csv_rows(path: Path, sample: Sample, written: Written) -> Iterator[Record]:
    csv.field_size_limit(sys.maxsize)  # the default refuses documents over 128 KiB
    with path.open("rb") as file:
        reader = csv.reader(
            _decoded(file, written.encoding), strict=True, delimiter=written.separator
        )
        try:
            sample.columns = tuple(next(reader, []))
            _check_header(sample, written.separator)
            broken = 0
            for cells in reader:
                place = f"line {reader.line_num}"
                if not cells:
                    continue  # an empty line, as there often is at the end
                if len(cells) != len(sample.columns):
                    sample.faults.append(
                        f"{place}: found {_counted(len(cells), 'cell')}, allowed: "
                        f"{len(sample.columns)}, as in the header; quote texts that hold commas or "
                        "line breaks"
                    )
                    broken += 1
                    if broken == MOST_BROKEN_LINES:
                        raise _BrokenError(f"{place}: the lines after it were not looked at")
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


def _jsonl_rows(path: Path, sample: Sample, written: Written) -> Iterator[Record]:
    broken = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            place = f"line {number}"
            cells: Any = None
            try:
                cells = json.loads(line.decode("utf-8").rstrip())
                problem = None if isinstance(cells, dict) else f"found {shown(cells)}"
            except json.JSONDecodeError as error:
                problem = f"found what is no JSON ({error.msg} at character {error.pos + 1})"
            except UnicodeDecodeError as error:
                problem = f"found 0x{line[error.start]:02x} at byte {error.start + 1}, no UTF-8"
            if problem is not None:
                sample.faults.append(f"{place}: {problem}, allowed: a JSON object in each line")
                broken += 1
                if broken == MOST_BROKEN_LINES:
                    raise _BrokenError(f"{place}: the lines after it were not looked at")
                continue
            sample.columns = sample.columns or tuple(cells)
            yield Record(place, cells)


def _parquet_rows(path: Path, sample: Sample, written: Written) -> Iterator[Record]:
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


_READERS: Mapping[str, Callable[[Path, Sample, Written], Iterator[Record]]] = {
    ".csv": _csv_rows,
    ".jsonl": _jsonl_rows,
    ".parquet": _parquet_rows,
}


def shown(value: Any) -> str:
    """A value as a sentence shows it."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
