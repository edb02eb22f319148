"""Evidence read back: what one training job measured and can prove, whoever wrote it.

`compilegate.job.evidence` holds the types and writes them. An execution's folder has one subfolder
per replicate, ``ARM--SEED``, with an unpacked ``evidence/`` or SageMaker's ``output.tar.gz``, which
has ``evidence/`` inside; these may lie one level deeper, where several jobs gathered them. Types,
shapes and finiteness are checked here, once; what cannot be read raises EvidenceError with the file
and the reason. Whether the values make sense is asked in `record` and `records`.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from compilegate.job.contract import (
    EVIDENCE_FILE,
    EVIDENCE_FOLDER,
    EXAMPLES_FILE,
    OUTPUT_ARCHIVE,
    PADDINGS,
    PAIRED_FILE,
    PARITY_FILE,
    STEPS_FILE,
    TRAINED_ON_FILE,
)
from compilegate.job.evidence import (
    CACHE_STATES,
    MEMORY_OF,
    SCHEMA_VERSION,
    Evidence,
    EvidenceError,
    EvidenceOrigin,
    EvidenceRecord,
    Examples,
    PaddingRecord,
    PairedBlocks,
    ParityErrors,
    Steps,
    TrainedOn,
)
from compilegate.job.evidence.record import SLICE, SLOWDOWN_KINDS, has_paired_speed, has_parity
from compilegate.job.evidence.writing import OWN_DIGEST, document_digest
from compilegate.job.files import whole_file

Replicate = tuple[str, int]
"""An (arm, seed)."""
Column = npt.NDArray[Any]
Kinds = Mapping[str, tuple[str, int]]
"""Column name to (numpy kind, number of dimensions)."""
Held = dict[tuple[str, int, int], Column]
"""Columns of examples.npz by (name, checksum, size). All replicates are scored on the same rows, so
a million ids are read, and stored in memory, once."""
_OF_A_MODEL = frozenset({"scores", "losses", "predictions"})
"""Columns that differ from model to model."""
MOST_JSON_BYTES = 64 * 1024**2
MOST_COLUMN_BYTES = 4 * 1024**3
"""The limit for the columns of one file: a million examples with five hundred classes fit."""
MOST_UNPACKED_BYTES = 2 * 1024**3
"""The limit for the evidence of one replicate; scores of a million examples fit easily."""
MOST_REPRO_FILES = 20
"""A repro is a script, its inputs, and what the search for it found."""
MOST_POSITIONS = 10**16
"""Largest plausible number of positions in an epoch."""
AT_ONCE = 2
"""Replicates that are read at the same time; each needs memory of its own until it is shared."""
_FLOATS, _INTEGERS, _TEXTS = ("f", 1), ("i", 1), ("U", 1)
_STEPS = {"loss": _FLOATS, "seconds": _FLOATS}
_EXAMPLES = {"ids": _TEXTS, "labels": _INTEGERS, "scores": ("f", 2), "losses": _FLOATS}
_EXAMPLES_OPTIONAL = {"targets": _FLOATS, "predictions": _FLOATS, "inputs": _INTEGERS}
_PARITY = {"tensors": _TEXTS, **dict.fromkeys(("eager", "repeated", "compiled"), ("f", 2))}
_PAIRED = {
    **dict.fromkeys(("baseline_seconds", "candidate_seconds"), _FLOATS),
    "baseline_first": ("b", 1),
}
_TRAINED_ON = {"ids": _INTEGERS, "inputs": _INTEGERS}


class MissingEvidenceError(EvidenceError):
    """There is no evidence of a replicate at all."""


class UndeclaredEvidenceError(EvidenceError):
    """There is evidence of a seed that the experiment does not declare."""


def folder_name(arm: str, seed: int) -> str:
    """The subfolder of one replicate."""
    return f"{arm}--{seed}"


def read_records(
    folder: Path, declared: Sequence[Replicate]
) -> dict[Replicate, EvidenceRecord | EvidenceError]:
    """The evidence of each declared replicate, or the error that reading it met: an error is
    evidence too. So is a seed of a declared arm that the experiment does not declare."""
    held: Held = {}

    def read(replicate: Replicate) -> EvidenceRecord | EvidenceError:
        try:
            return read_replicate(_place(folder, folder_name(*replicate)), held)
        except EvidenceError as error:
            return error

    # Threads, since it is mostly decompression, which does not hold the interpreter.
    with ThreadPoolExecutor(AT_ONCE) as readers:
        records = dict(zip(declared, readers.map(read, declared), strict=True))
    arms = {arm for arm, _ in declared}
    for arm, seed in sorted(replicates_in(folder) - set(records)):
        if arm in arms:
            records[arm, seed] = UndeclaredEvidenceError(f"{folder_name(arm, seed)} was trained")
    return records


def replicates_in(folder: Path) -> set[Replicate]:
    """The (arm, seed) that each subfolder is called after, whatever is in it."""
    found = set()
    for place in (*folder.glob("*--*"), *folder.glob("*/*--*")):
        arm, _, seed = place.name.rpartition("--")
        if place.is_dir() and seed.isdecimal() and folder_name(arm, int(seed)) == place.name:
            found.add((arm, int(seed)))
    return found


def read_replicate(folder: Path, held: Held | None = None) -> EvidenceRecord:
    """Read one replicate's subfolder. Raises EvidenceError for anything that is not evidence."""
    with tempfile.TemporaryDirectory(prefix="evidence-") as unpacked:
        return read_evidence(_opened(folder, Path(unpacked)), held)


def read_evidence(folder: str | Path, held: Held | None = None) -> EvidenceRecord:
    """Read one evidence folder back, with the columns that a record of its origin has.

    `held` has the columns of validation rows that other replicates had, which are not read again.
    Raises EvidenceError for anything missing, damaged, or of another schema version.
    """
    folder = Path(folder)
    evidence, as_written = _read_scalars(folder / EVIDENCE_FILE)
    record = EvidenceRecord(evidence, None, None, as_written=as_written)
    if evidence.origin == EvidenceOrigin.MEASURED and has_parity(evidence):
        errors = ParityErrors(**_read_columns(folder / PARITY_FILE, _PARITY))
        record = replace(record, parity=errors)
    if evidence.failure is None and evidence.origin == EvidenceOrigin.MEASURED:
        record = replace(record, steps=Steps(**_read_columns(folder / STEPS_FILE, _STEPS)))
        if has_paired_speed(evidence):
            blocks = PairedBlocks(**_read_columns(folder / PAIRED_FILE, _PAIRED))
            record = replace(record, paired=blocks)
        if "trained_on" in evidence.digests:
            record = replace(record, trained_on=_read_trained_on(folder / TRAINED_ON_FILE))
    if _has_examples(evidence, folder / EXAMPLES_FILE):
        record = replace(record, examples=_read_examples(folder / EXAMPLES_FILE, held))
    _check_whole(record)
    return record


def copy_repro(folder: Path, replicate: Replicate, target: Path) -> None:
    """Copy the plain files of a job's repro (the script that shows wrong arithmetic, and its
    inputs) from the execution's evidence to the folder `target`.

    Links are not followed, and no folders within it are copied. Raises EvidenceError.
    """
    with tempfile.TemporaryDirectory(prefix="evidence-") as unpacked:
        place = _place(folder, folder_name(*replicate))
        evidence = _opened(place, Path(unpacked)).resolve()
        parity = _read_scalars(evidence / EVIDENCE_FILE)[0].parity
        name = "" if parity is None else parity.repro or ""
        source = (evidence / name).resolve()
        if not name or not source.is_relative_to(evidence) or not source.is_dir():
            raise EvidenceError(f"there is no repro at {name}")
        files = sorted(path for path in source.iterdir() if not path.is_symlink())
        files = [path for path in files if path.is_file()][:MOST_REPRO_FILES]
        for path in files:
            with whole_file(target / path.name) as part:
                shutil.copyfile(path, part)


# Where it lies, and archives.


def _place(folder: Path, name: str) -> Path:
    """The replicate's subfolder. Raises EvidenceError when there is more than one."""
    direct = folder / name
    places = [place for place in (direct, *sorted(folder.glob(f"*/{name}"))) if place.is_dir()]
    if len(places) > 1:
        found = " and ".join(place.relative_to(folder).as_posix() for place in places)
        raise EvidenceError(f"the evidence is there more than once: {found}")
    return places[0] if places else direct


def _opened(folder: Path, unpacked: Path) -> Path:
    """The evidence folder of a replicate's subfolder, in `unpacked` where it was packed."""
    archive = folder / OUTPUT_ARCHIVE
    if (folder / EVIDENCE_FOLDER).is_dir():
        if archive.exists():
            raise EvidenceError(
                f"the evidence is there more than once: {folder.name} holds {EVIDENCE_FOLDER}/ "
                f"and {OUTPUT_ARCHIVE}"
            )
        return folder / EVIDENCE_FOLDER
    if not archive.is_file():
        raise MissingEvidenceError(
            f"there is no evidence: {folder.name} holds neither {EVIDENCE_FOLDER}/ "
            f"nor {OUTPUT_ARCHIVE}"
        )
    _unpack(archive, unpacked)
    if not (unpacked / EVIDENCE_FOLDER).is_dir():
        raise MissingEvidenceError(f"{OUTPUT_ARCHIVE} holds no {EVIDENCE_FOLDER}/ folder")
    return unpacked / EVIDENCE_FOLDER


def _unpack(archive: Path, target: Path) -> None:
    """Unpack the plain files of `evidence/` and nothing else."""
    try:
        with gzip.open(archive) as stream:
            with tarfile.open(fileobj=stream, mode="r:") as stored:
                for member in _evidence_members(stored):
                    # No owner, no times: a time that no system has must not end the gate.
                    member.mtime = 0
                    stored.extract(member, target, filter="data")
            # The checksum stands at the end of the stream, after what tarfile reads.
            while stream.read(1 << 20):
                pass
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise EvidenceError(f"{archive.name} is truncated or damaged: {error}") from error


def _evidence_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members to unpack. Raises EvidenceError when they are not plain files, or too large."""
    unpacked = 0
    for member in archive:
        path = PurePosixPath(member.name)
        if path.parts[:1] != (EVIDENCE_FOLDER,) or member.isdir():
            continue
        if not member.isfile() or ".." in path.parts:
            raise EvidenceError(f"{OUTPUT_ARCHIVE}: {member.name[:80]!r} is not a plain file")
        unpacked += member.size
        if unpacked > MOST_UNPACKED_BYTES:
            raise EvidenceError(
                f"{OUTPUT_ARCHIVE} unpacks to more than {MOST_UNPACKED_BYTES} bytes"
            )
        yield member


# evidence.json

_ADAPTER = TypeAdapter(Evidence)
_ANY_SCALAR = frozenset({"recipe", "environment", "options", "proof", "checkup"})
"""Objects whose keys and values a job chooses."""
_EXPECTED = {
    "bool_type": "true or false",
    "dataclass_type": "an object",
    "dict_type": "an object",
    "float_type": "a number",
    "int_type": "a whole number",
    "mapping_type": "an object",
    "string_type": "a string",
    "tuple_type": "a list",
}
"""Pydantic's error type to the expected JSON type, in words."""


def _read_scalars(path: Path) -> tuple[Evidence, bool]:
    """The record, and whether the file holds its own digest. Raises EvidenceError."""
    _check_plain_file(path, MOST_JSON_BYTES)
    try:
        raw = json.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(f"{path.name} is not readable JSON: {error}") from error
    if not isinstance(raw, dict):
        raise EvidenceError(f"{path.name} holds {type(raw).__name__}, expected an object")
    version = raw.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise EvidenceError(
            f"{path.name}: schema_version is {version!r}, this gate reads {SCHEMA_VERSION}"
        )
    try:
        # Strict, and of what has been parsed once already: a parser that reads the same bytes
        # otherwise would read another document than the one that has the digest.
        evidence = _ADAPTER.validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        raise EvidenceError(f"{path.name}: {_sentence(error.errors()[0])}") from error
    problem = next(_problems(evidence), None)
    if problem is not None:
        raise EvidenceError(f"{path.name}: {problem}")
    return evidence, raw.get(OWN_DIGEST) == document_digest(raw)


def _problems(evidence: Evidence) -> Iterator[str]:
    """Problems that types do not show, each as `KEY is FOUND, expected ...`."""
    for key, found in numbers(evidence):
        if not found >= 0 or found == math.inf:  # False for NaN too
            yield f"{key} is {_shown(found)}, expected a finite number of zero or more"
    state = None if evidence.compile_cache is None else evidence.compile_cache.state
    named: list[tuple[str, str | None, Iterable[str]]] = [
        ("compile_cache: state", state, CACHE_STATES),
        ("memory_of", evidence.memory_of, MEMORY_OF),
    ]
    named += [("hindrances: kind", each.kind, SLOWDOWN_KINDS) for each in evidence.hindrances]
    for key, value, allowed in named:
        if value is not None and value not in allowed:
            yield f"{key} is {_shown(value)}, expected {', '.join(map(repr, allowed))}"
    if evidence.padding is not None:
        yield from (f"padding: {problem}" for problem in padding_problems(evidence.padding))


def padding_problems(record: PaddingRecord) -> Iterator[str]:
    if record.padding not in PADDINGS:
        yield f"padding is {_shown(record.padding)}, expected {', '.join(map(repr, PADDINGS))}"
    for key in ("lengths", "bucket_lengths", "histogram_upto"):
        found: tuple[int, ...] = getattr(record, key)
        if not all(one < other for one, other in pairwise((0, *found))):
            yield f"{key} is {_shown(found)}, expected ascending lengths from 1"
    if len(record.histogram_upto) != len(record.histogram_documents):
        yield "histogram_documents has another length than histogram_upto"
    positions = record.positions
    least = min(positions.max, positions.buckets, positions.longest)
    if not 0 < record.tokens <= least <= positions.max <= MOST_POSITIONS:
        yield f"tokens is {_shown(record.tokens)}, expected one or more, and no more than positions"


def numbers(section: Any) -> Iterator[tuple[str, float]]:
    """Every number of a section and of those in it, with its key."""
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        for inner in value if isinstance(value, tuple) else [value]:
            if dataclasses.is_dataclass(inner):
                yield from ((f"{field.name}: {key}", it) for key, it in numbers(inner))
            elif isinstance(inner, (int, float)) and not isinstance(inner, bool):
                yield field.name, inner


def _sentence(details: ErrorDetails) -> str:
    """The problem in words, with the key and the value."""
    location = details["loc"]
    expected = _EXPECTED.get(details["type"], details["msg"][0].lower() + details["msg"][1:])
    if _ANY_SCALAR.intersection(location[:-1]):  # then the last part is a member of the union
        location, expected = location[:-1], "a string, number, true, false or null"
    where = ": ".join(map(str, location)) or "the document"
    if details["type"] == "missing":
        return f"{where} is missing"
    return f"{where} is {_shown(details['input'])}, expected {expected}"


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


# Columns.


def _has_examples(evidence: Evidence, path: Path) -> bool:
    """Whether there must be examples; a job that measured itself may have metrics instead, and
    then no digest of any."""
    if evidence.failure is not None or evidence.origin != EvidenceOrigin.MEASURED:
        return False
    return not evidence.metrics or "examples" in evidence.digests or path.exists()


def _read_examples(path: Path, held: Held | None) -> Examples:
    optional = {**_EXAMPLES_OPTIONAL, SLICE: _TEXTS}
    return Examples(**_with_slices(_read_columns(path, _EXAMPLES, optional, held)))


def _read_trained_on(path: Path) -> TrainedOn:
    return TrainedOn(**_with_slices(_read_columns(path, _TRAINED_ON, {SLICE: _INTEGERS})))


def _with_slices(columns: Mapping[str, Column]) -> dict[str, Any]:
    """The columns that every record has, and those of categories by their own names."""
    slices = {name[len(SLICE) :]: it for name, it in columns.items() if name.startswith(SLICE)}
    own = {name: it for name, it in columns.items() if not name.startswith(SLICE)}
    return {**own, "slices": slices}


def _read_columns(
    path: Path, columns: Kinds, optional: Kinds = MappingProxyType({}), held: Held | None = None
) -> dict[str, Column]:
    """Read the named columns, and `optional` ones, which are named by how their names begin.
    Raises EvidenceError."""
    _check_plain_file(path, MOST_COLUMN_BYTES)
    kinds, arrays = dict(columns), {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename: member for member in archive.infolist()}
        if sum(member.file_size for member in members.values()) > MOST_COLUMN_BYTES:
            raise EvidenceError(f"{path.name} unpacks to more than {MOST_COLUMN_BYTES} bytes")
        # allow_pickle=False: an evidence folder may come from anywhere.
        with np.load(path, allow_pickle=False) as stored:
            for start, expected in optional.items():
                kinds.update({name: expected for name in stored.files if name.startswith(start)})
            for name in kinds.keys() & {*stored.files}:
                member = members[f"{name}.npy"]
                key = (name, member.CRC, member.file_size)
                if held is not None and key in held:
                    arrays[name] = held[key]
                    continue
                arrays[name] = _loaded(f"{path.name}: column {name}", stored[name])
                if held is not None and name not in _OF_A_MODEL:  # of two readers the first one's
                    arrays[name] = held.setdefault(key, arrays[name])
    except EvidenceError:
        raise
    except Exception as error:  # OSError, BadZipFile, zlib.error, MemoryError: a damaged archive
        raise EvidenceError(
            f"{path.name} cannot be read: {type(error).__name__}: {error}"
        ) from error
    for name in columns:
        if name not in arrays:
            raise EvidenceError(f"{path.name}: column {name} is missing")
    return {
        name: _converted(f"{path.name}: column {name}", found, *kinds[name])
        for name, found in arrays.items()
    }


def _check_plain_file(path: Path, most_bytes: int) -> None:
    """Raises EvidenceError for what is missing, too large or no file: reading a pipe or a device
    may never end."""
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise EvidenceError(f"{path.name} is missing") from error
    except OSError as error:
        raise EvidenceError(f"{path.name} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise EvidenceError(f"{path.name} is not a plain file")
    if found.st_size > most_bytes:
        raise EvidenceError(f"{path.name} is larger than {most_bytes} bytes")


def _loaded(where: str, found: Any) -> Any:
    """What an archive held: text in the byte order of this machine. Raises EvidenceError for code
    points beyond the last one, which crash Python's own functions."""
    if isinstance(found, np.ndarray) and found.dtype.kind == "U":
        found = found.astype(found.dtype.newbyteorder("="), order="C", copy=False)
        if found.size and found.itemsize and found.view(np.uint32).max() > 0x10FFFF:
            raise EvidenceError(f"{where} holds something other than text")
    return found


def _converted(where: str, found: Any, kind: str, dimensions: int) -> Column:
    """The column in the type that all code uses: numbers in double precision (sums over half a
    million numbers in half precision are none), integers of 64 bits. It is the same array where it
    has that type. Raises EvidenceError."""
    if not isinstance(found, np.ndarray):  # bytes, where an archive holds something else
        raise EvidenceError(f"{where} is not an array")
    if found.dtype.kind != kind or found.ndim != dimensions:
        raise EvidenceError(
            f"{where} has type {found.dtype} and {found.ndim} dimensions, "
            f"expected kind {kind!r} and {dimensions}"
        )
    if kind in "bU":
        return found
    with np.errstate(over="ignore"):  # of extended precision; infinity is judged later
        return found.astype(np.float64 if kind == "f" else np.int64, copy=False)


def _check_whole(record: EvidenceRecord) -> None:
    """Raise EvidenceError where parts of the record do not fit each other."""
    evidence, steps, examples = record.evidence, record.steps, record.examples
    if record.parity is not None and evidence.parity is not None:
        _check_parity(record.parity, evidence.parity.steps)
    if evidence.failure is not None:  # of a job that ended since its arithmetic is wrong
        return
    if evidence.origin == EvidenceOrigin.MEASURED:
        for name in ("speed", "compiler"):
            if getattr(evidence, name) is None:
                raise EvidenceError(f"{EVIDENCE_FILE}: {name} is missing")
    if steps is not None:
        _check_lengths(STEPS_FILE, vars(steps))
        _check_resumptions(evidence, len(steps.loss))
    if record.paired is not None:
        _check_lengths(PAIRED_FILE, vars(record.paired))
    if examples is not None:
        if (examples.targets is None) != (examples.predictions is None):
            raise EvidenceError(f"{EXAMPLES_FILE}: only one of targets and predictions is there")
        columns = {name: it for name, it in vars(examples).items() if name != "slices"}
        columns.update({f"{SLICE}{name}": it for name, it in examples.slices.items()})
        _check_lengths(EXAMPLES_FILE, columns)


def _check_lengths(file: str, columns: Mapping[str, Any]) -> None:
    """Whether all columns have a value of every row."""
    there = {name: column for name, column in columns.items() if column is not None}
    lengths = {name: len(it) if np.ndim(it) else 0 for name, it in there.items()}
    if len(set(lengths.values())) > 1:
        raise EvidenceError(f"{file}: columns of different lengths: {lengths}")


def _check_resumptions(evidence: Evidence, steps: int) -> None:
    """Resumptions say which steps do not count for the speed: they must name steps that exist."""
    for each in evidence.resumed:
        if not 0 < each.step <= each.steady_from <= steps:
            raise EvidenceError(
                f"{EVIDENCE_FILE}: checkpoints: resumed names step {each.step}, steady from "
                f"{each.steady_from}, expected a step after the first and no more than {steps}"
            )


def _check_parity(errors: ParityErrors, steps: int) -> None:
    tensors = errors.tensors
    if len(np.unique(tensors)) != len(tensors):
        raise EvidenceError(f"{PARITY_FILE}: column tensors names a tensor twice")
    for name in ("eager", "repeated", "compiled"):
        column = getattr(errors, name)
        if column.shape != (steps, len(tensors)) or not column.size:
            raise EvidenceError(
                f"{PARITY_FILE}: column {name} has shape {column.shape}, expected one row for "
                f"each of the {steps} steps (parity.steps in evidence.json) and one column for "
                f"each of the {len(tensors)} tensors, one or more of either"
            )
        if (column < 0).any():
            raise EvidenceError(f"{PARITY_FILE}: column {name} holds a negative error")


# Rows of examples. All columns of a record move together.

RowSelection = npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice


def same_column(one: Column | None, other: Column | None) -> bool:
    """Whether two columns hold the same rows; at once where they are one array."""
    if one is None or other is None:
        return one is other
    return one is other or np.array_equal(one, other)


def take_rows(examples: Examples, rows: RowSelection) -> Examples:
    """The examples at `rows`, an index or mask over them, in that order."""
    columns = {name: it[rows] for name, it in vars(examples).items() if isinstance(it, np.ndarray)}
    slices = {name: column[rows] for name, column in examples.slices.items()}
    return replace(examples, **columns, slices=slices)


def in_the_order_of(examples: Examples, reference: Examples) -> Examples:
    """The same rows in the reference's order, so that rows of two jobs meet.

    Both must hold the same ids. Nothing is copied where the order is the same already.
    """
    if same_column(examples.ids, reference.ids):
        return examples
    rows = np.empty(len(examples.ids), dtype=np.int64)
    rows[np.argsort(reference.ids, kind="stable")] = np.argsort(examples.ids, kind="stable")
    return take_rows(examples, rows)


def shared(examples: Examples, known: Examples) -> Examples:
    """The same examples; columns that are equal to those of `known` are these, so that a million
    ids are in memory once, and comparing them again takes no time."""
    same: dict[str, Any] = {}
    for name in ("ids", "labels", "targets", "inputs"):
        own, its = getattr(examples, name), getattr(known, name)
        if own is not its and same_column(own, its):
            same[name] = its
    slices = {
        name: known.slices[name] if same_column(it, known.slices.get(name)) else it
        for name, it in examples.slices.items()
    }
    if any(slices[name] is not it for name, it in examples.slices.items()):
        same["slices"] = slices
    return replace(examples, **same) if same else examples
