"""What the programs of built-in algorithms share: the job's files, its hyperparameters, its tables.

A program runs as a file of its own in the image's environment, with this one beside it.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import struct
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy

MODEL = "model_algo-1"
"""The file in the model's archive, as AWS's images call it."""
CSV, RECORDS = "text/csv", "application/x-recordio-protobuf"
_MOST_NUMBERS = 2_000_000_000

Span = Any
"""Where a part of a file begins and where it ends."""


class JobError(Exception):
    """What the user has to change; the job fails with this sentence."""


class Paths:
    """Where the container's contract has the job's files."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        base = Path(variables["SM_INPUT_DIR"]).parent
        self.config, self.data = base / "input/config", base / "input/data"
        self.model, self.failure = base / "model", base / "output/failure"

    def told(self, name: str) -> dict[str, Any]:
        """A file of the job's configuration."""
        read: dict[str, Any] = json.loads((self.config / name).read_text(encoding="utf-8"))
        return read


def run(train: Callable[[Paths], None]) -> None:
    """Run one job; a failure is a sentence, in the log and in the container's failure file."""
    paths = Paths(os.environ)
    try:
        train(paths)
    except JobError as error:
        paths.failure.parent.mkdir(parents=True, exist_ok=True)
        paths.failure.write_text(str(error), encoding="utf-8")
        print(f"ClientError: {error}", flush=True)
        sys.exit(1)


def save(paths: Paths, **arrays: Any) -> None:
    """Leave the model: named arrays, which numpy reads without running any code."""
    with (paths.model / MODEL).open("wb") as file:
        numpy.savez(file, **arrays)
    print(f"Stored trained model at {paths.model / MODEL}", flush=True)


# Hyperparameters


class Number:
    """A number between two others; `default` is what counts where none is given."""

    def __init__(
        self, default: Any, least: float = 0, greatest: float = math.inf, kind: type = float
    ) -> None:
        self.default, self.least, self.greatest, self.kind = default, least, greatest, kind

    def read(self, name: str, text: str) -> Any:
        """The number. Raises JobError."""
        if text == "auto":
            return self.default
        try:
            value = self.kind(text)
        except ValueError:
            expected = "a whole number" if self.kind is int else "a number"
            raise JobError(f"the hyperparameter {name} is {text!r}, expected {expected}") from None
        if not self.least <= value <= self.greatest:
            raise JobError(
                f"the hyperparameter {name} is {text}, allowed: {self.least} to {self.greatest}"
            )
        return value


class Choice:
    """One of some words, the first unless another is given."""

    def __init__(self, *words: str) -> None:
        self.default, self.words = words[0], words

    def read(self, name: str, text: str) -> str:
        """The word. Raises JobError."""
        word = text.lower() if text.lower() in self.words else text
        if word not in self.words:
            raise JobError(
                f"the hyperparameter {name} is {text!r}, allowed: {', '.join(self.words)}"
            )
        return word


class Text:
    """Any text."""

    def __init__(self, default: str = "") -> None:
        self.default = default

    def read(self, _name: str, text: str) -> str:
        """The text itself."""
        return text


def read_hyperparameters(
    given: Mapping[str, Any], known: Mapping[str, Any], algorithm: str, required: Sequence[str]
) -> dict[str, Any]:
    """Typed, checked and with defaults. Raises JobError."""
    read = {name: field.default for name, field in known.items()}
    for name, text in given.items():
        if name.startswith(("sagemaker_", "_")):  # the service's own
            continue
        if name not in known:
            raise JobError(
                f"the hyperparameter {name} is not one of the {algorithm} algorithm; it has "
                f"{', '.join(sorted(known))}"
            )
        read[name] = known[name].read(name, str(text).strip().strip('"'))
    for name in required:
        if name not in given:
            raise JobError(f"the hyperparameter {name} is missing, it must be given")
    return read


def ignored(given: Mapping[str, Any], names: Sequence[str]) -> None:
    """Say which of the given hyperparameters have no effect here."""
    for name in names:
        if name in given:
            print(f"The hyperparameter {name} has no effect here.")


# Tables


class Table:
    """The rows of a channel."""

    def __init__(self, features: Any, labels: Any) -> None:
        self.features, self.labels = features, labels


def read_channels(
    paths: Paths, allowed: Sequence[str], feature_dim: int | None, algorithm: str
) -> dict[str, Table]:
    """The tables of all channels; `train` must be there. Raises JobError."""
    channels = paths.told("inputdataconfig.json")
    if "train" not in channels:
        raise JobError(f"the channel train is missing; there are {sorted(channels) or 'none'}")
    tables = {}
    width = feature_dim
    for name in [each for each in allowed if each in channels]:
        table = _read_channel(paths.data / name, channels[name].get("ContentType"), width)
        found = table.features.shape[1]
        if width is not None and found != width:
            told = "feature_dim says" if feature_dim is not None else "the channel train has"
            raise JobError(f"the channel {name} has {found} features, {told} {width}")
        width = found
        print(f"{name} has {len(table.features)} rows and {found} features", flush=True)
        tables[name] = table
    for name in sorted(set(channels) - set(allowed)):
        raise JobError(f"the channel {name} is none of {algorithm}'s: {', '.join(allowed)}")
    return tables


def _read_channel(folder: Path, declared: str | None, width: int | None) -> Table:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    files = [path for path in found if not path.name.startswith((".", "_"))]
    if not files:
        raise JobError(f"the channel {folder.name} holds no data file")
    kind, _, options = (declared or RECORDS).lower().partition(";")
    kind = kind.strip()
    if kind in (CSV, "csv"):
        size = re.search(r"label_size\s*=\s*(\d+)", options)
        return _read_csv(files, 1 if size is None else int(size[1]))
    if kind in (RECORDS, "application/x-recordio"):
        return _read_records(files, width)
    raise JobError(f"the content type {declared} cannot be read here, allowed: {CSV}, {RECORDS}")


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def _read_csv(files: Sequence[Path], label_size: int) -> Table:
    if label_size > 1:
        raise JobError(f"label_size={label_size}, allowed: 0 and 1")
    tables = []
    for path in files:
        lines = _content(path).decode("utf-8", errors="replace").splitlines()
        lines = [line for line in lines if line.strip()]
        if not lines:
            continue
        try:
            tables.append(numpy.loadtxt(lines, delimiter=",", ndmin=2, comments=None))
        except ValueError as error:
            raise JobError(
                f"{path.name} is not a table of numbers ({error}): the algorithm takes CSV without "
                f"a header and without empty cells; its first line is {lines[0][:50]!r}"
            ) from None
    if not tables:
        raise JobError(f"the channel {files[0].parent.name} holds no rows")
    widths = sorted({table.shape[1] for table in tables})
    if len(widths) > 1:
        raise JobError(f"the CSV files of {files[0].parent.name} have {widths} columns, not alike")
    data = numpy.concatenate(tables)
    if not numpy.isfinite(data).all():
        raise JobError(f"the CSV files of {files[0].parent.name} hold nan or inf")
    if data.shape[1] <= label_size:
        raise JobError(
            f"the CSV files of {files[0].parent.name} have {data.shape[1]} column: the first is "
            "the label unless the ContentType is text/csv;label_size=0"
        )
    return Table(data[:, label_size:], data[:, 0] if label_size else None)


# RecordIO: a magic number, a length, a message of protobuf, padded to four bytes. The message has
# maps `features` (1) and `label` (2) from a name to a tensor of values, keys and shape.

_MAGIC = 0xCED7230A
_TENSORS = {2: ("<f4", 4), 3: ("<f8", 8), 7: (None, 0)}
"""The number of a tensor's kind: how numpy reads its values, and their bytes; None is varints."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def _read_records(files: Sequence[Path], width: int | None) -> Table:
    rows: list[Any] = []
    labels: list[Any] = []
    for path in files:
        content = _content(path)
        try:
            for start, end in _messages(content, path):
                features, label = _record(content, start, end)
                rows.append(features)
                labels.append(label)
        except (IndexError, ValueError, struct.error):
            raise JobError(
                f"record {len(rows) + 1} of {path.name} is damaged: {RECORDS} was expected, which "
                "is what a channel without a ContentType holds"
            ) from None
    if not rows:
        raise JobError(f"the channel {files[0].parent.name} holds no records")
    wide = width or max(_width(row) for row in rows)
    if wide * len(rows) > _MOST_NUMBERS:
        raise JobError(f"{len(rows)} rows of {wide} features are too many for this machine")
    table = numpy.zeros((len(rows), wide), dtype=numpy.float32)
    for target, (values, keys, shape) in zip(table, rows):
        found = _width((values, keys, shape))
        if found > wide or (keys is None and found != wide):
            raise JobError(f"a record has {found} features, others have {wide}")
        if keys is None:
            target[:] = values
        else:
            target[keys] = values
    there = [label is not None and len(label[0]) == 1 for label in labels]
    known = numpy.array([label[0][0] for label in labels], dtype=float) if all(there) else None
    return Table(table, known)


def _width(tensor: tuple[Any, Any, Any]) -> int:
    values, keys, shape = tensor
    if keys is None:
        return len(values)
    return int(shape[-1]) if len(shape) else int(max(keys, default=-1)) + 1


def _messages(content: bytes, path: Path) -> Iterator[Span]:
    position = 0
    while position < len(content):
        magic, length = struct.unpack_from("<II", content, position)
        if magic != _MAGIC or length >> 29:
            raise ValueError(path)
        position += 8
        if position + length > len(content):
            raise ValueError(path)
        yield position, position + length
        position += (length + 3) // 4 * 4


def _record(content: bytes, start: int, end: int) -> tuple[Any, Any]:
    features = label = None
    for number, _, entry in _fields(content, start, end):
        if number not in (1, 2):
            continue
        for part, _, value in _fields(content, *entry):
            if part == 2:
                tensor = _tensor(content, *value)
                features, label = (tensor, label) if number == 1 else (features, tensor)
    if features is None:
        raise ValueError(start)
    return features, label


def _tensor(content: bytes, start: int, end: int) -> tuple[Any, Any, Any]:
    for number, _, span in _fields(content, start, end):
        if number not in _TENSORS:
            continue
        read, size = _TENSORS[number]
        parts: list[Any] = []
        keys: list[int] = []
        shape: list[int] = []
        for part, wire, found in _fields(content, *span):
            if part == 1 and read is not None:
                raw = content[found[0] : found[1]]
                parts.append(numpy.frombuffer(raw, dtype=read, count=len(raw) // size))
            elif part == 1:
                parts.append(_varints(content, wire, found))
            elif part == 2:
                keys += _varints(content, wire, found)
            elif part == 3:
                shape += _varints(content, wire, found)
        values = numpy.concatenate(parts) if parts else numpy.zeros(0)
        return values, numpy.array(keys, dtype=int) if keys else None, shape
    raise ValueError(start)


def _varints(content: bytes, wire: int, span: Span) -> list[int]:
    position, end = span
    found = []
    while position < end:
        value, position = _varint(content, position)
        found.append(value - (1 << 64) if value >> 63 else value)
    return found


def _fields(content: bytes, start: int, end: int) -> Iterator[tuple[int, int, Span]]:
    """The number, the kind and the place of each field of a message."""
    position = start
    while position < end:
        tag, position = _varint(content, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            begin = position
            _, position = _varint(content, position)
        elif wire in (_FIXED64, _FIXED32):
            begin = position
            position += 8 if wire == _FIXED64 else 4
        elif wire == _LENGTH:
            length, begin = _varint(content, position)
            position = begin + length
        else:
            raise ValueError(wire)
        if position > end:
            raise ValueError(position)
        yield number, wire, (begin, position)


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position
        if shift > 63:
            raise ValueError(position)
