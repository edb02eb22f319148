"""Whether a workload's data fit what it declares: the header and a sample of the rows, before
anything starts. Every misfit is one sentence: file, line and column, what was found and what is
allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compilegate.datasets.raw_data import DatasetError
from compilegate.datasets.selection import raw_data
from compilegate.datasets.tables import Record, Sample, read_sample, shown
from compilegate.workload import FilesData, FolderData, HubData, ReutersData, WheelData

MOST_ROWS = 20_000
"""Rows of each file that are looked at: a fraction of a second."""
MOST_OF_A_KIND = 3
"""Sentences about one kind of misfit in one file; the others are counted."""

Declared = ReutersData | FilesData | FolderData | HubData | WheelData


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
            found = shown(record.cells[column]) if column in record.cells else "nothing"
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
        f"{record.place}, column {declared.label!r}: found {shown(record.cells[declared.label])}, "
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
