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
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from compilegate.job.evidence import (
    CACHE_STATES,
    MEMORY_OF,
    SCHEMA_VERSION,
    Evidence,
    EvidenceError,
    EvidenceRecord,
    Examples,
    Origin,
    PaddingRecord,
    PairedBlocks,
    ParityErrors,
    Steps,
    TrainedOn,
)
from compilegate.job.evidence.digests import OWN_DIGEST, document_digest
from compilegate.job.evidence.hindrances import HINDRANCES
from compilegate.job.evidence.record import SLICE, has_paired_speed, has_parity
from compilegate.job.files import whole_file
from compilegate.job.names import (
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

Replicate = tuple[str, int]
"""An (arm, seed)."""
Held = dict[tuple[str, int, int], npt.NDArray[Any]]
"""Columns of examples.npz that were read, by their names, checksums and sizes. All replicates are
scored on the same rows, so a million ids are read, and kept in memory, once."""
_OF_A_MODEL = frozenset({"scores", "losses", "predictions"})
"""Columns that are a model's own."""
MOST_JSON_BYTES = 64 * 1024**2
MOST_COLUMN_BYTES = 4 * 1024**3
"""How large one file's columns may be: a million examples with five hundred classes fit."""
MOST_UNPACKED_BYTES = 2 * 1024**3
"""How large a replicate's evidence may be; scores of a million examples fit easily."""
MOST_ARCHIVE_BYTES = 64 * 1024**3
"""How large an archive may be when unpacked: other files in it have to be read over, too."""
MOST_MEMBERS = 10_000
MOST_REPRO_FILES = 20
"""A repro is a script, its inputs, and what the search for it found."""
MOST_POSITIONS = 10**16
"""Positions that an epoch computes: more can only be damage."""
AT_ONCE = 2
"""Replicates that are read at the same time; each takes memory of its own until it is shared."""
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
_IN_MEMORY = {"f": "fiu", "i": "iu", "b": "b", "U": "U"}
"""Kinds of numpy that do for a column in memory, by the one that is written."""


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
        records = dict(sharing(zip(declared, readers.map(read, declared), strict=True)))
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
    Raises EvidenceError for anything missing, truncated, of a wrong type or of another schema
    version.
    """
    folder = Path(folder)
    evidence, as_written = _read_scalars(folder / EVIDENCE_FILE)
    record = EvidenceRecord(evidence, None, None, as_written=as_written)
    if evidence.origin == Origin.MEASURED and has_parity(evidence):
        errors = ParityErrors(**_read_columns(folder / PARITY_FILE, _PARITY))
        record = replace(record, parity=errors)
    if evidence.failure is None and evidence.origin == Origin.MEASURED:
        record = replace(record, steps=Steps(**_read_columns(folder / STEPS_FILE, _STEPS)))
        if has_paired_speed(evidence):
            blocks = PairedBlocks(**_read_columns(folder / PAIRED_FILE, _PAIRED))
            record = replace(record, paired=blocks)
        if "trained_on" in evidence.digests:
            record = replace(record, trained_on=_read_trained_on(folder / TRAINED_ON_FILE))
    if _has_examples(evidence, folder / EXAMPLES_FILE):
        record = replace(record, examples=_read_examples(folder / EXAMPLES_FILE, held))
    return well_formed(record)


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
        if sum(path.stat().st_size for path in files) > MOST_COLUMN_BYTES:
            raise EvidenceError(f"the repro at {name} is larger than {MOST_COLUMN_BYTES} bytes")
        for path in files:
            with whole_file(target / path.name) as part:
                shutil.copyfile(path, part)


# Where it lies, and archives.


def _place(folder: Path, name: str) -> Path:
    """Where the replicate's subfolder lies. Raises EvidenceError when there is more than one."""
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
                if stream.tell() > MOST_ARCHIVE_BYTES:
                    raise _too_large(MOST_ARCHIVE_BYTES)
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise EvidenceError(f"{archive.name} is truncated or damaged: {error}") from error


def _evidence_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members to unpack. Raises EvidenceError when they are not plain files, or too large."""
    of_evidence = of_all = 0
    for count, member in enumerate(archive, start=1):
        path = PurePosixPath(member.name)
        of_all += member.size
        if of_all > MOST_ARCHIVE_BYTES:
            raise _too_large(MOST_ARCHIVE_BYTES)
        if count > MOST_MEMBERS:
            raise EvidenceError(f"{OUTPUT_ARCHIVE} has more than {MOST_MEMBERS} members")
        if path.parts[:1] != (EVIDENCE_FOLDER,) or member.isdir():
            continue
        if not member.isfile() or ".." in path.parts:
            raise EvidenceError(f"{OUTPUT_ARCHIVE}: {member.name[:80]!r} is not a plain file")
        of_evidence += member.size
        if of_evidence > MOST_UNPACKED_BYTES:
            raise _too_large(MOST_UNPACKED_BYTES)
        yield member


def _too_large(limit: int) -> EvidenceError:
    return EvidenceError(f"{OUTPUT_ARCHIVE} unpacks to more than {limit} bytes")


# evidence.json

_ADAPTER = TypeAdapter(Evidence)
_ANY_SCALAR = frozenset({"recipe", "environment", "options", "proof", "checkup"})
"""Objects that hold what the job likes, under names that it likes."""
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
"""In the words of JSON, by pydantic's type of error."""


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
    """What types do not say of the values, each as `KEY is FOUND, expected ...`."""
    for key, found in _numbers(evidence):
        if not found >= 0 or found == math.inf:  # False for NaN too
            yield f"{key} is {_shown(found)}, expected a finite number of zero or more"
    state = None if evidence.compile_cache is None else evidence.compile_cache.state
    named: list[tuple[str, str | None, Iterable[str]]] = [
        ("compile_cache: state", state, CACHE_STATES),
        ("memory_of", evidence.memory_of, MEMORY_OF),
    ]
    named += [("hindrances: kind", each.kind, HINDRANCES) for each in evidence.hindrances]
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


def _numbers(section: Any) -> Iterator[tuple[str, float]]:
    """Every number of a section and of those in it, with its key."""
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        for inner in value if isinstance(value, tuple) else [value]:
            if dataclasses.is_dataclass(inner):
                yield from ((f"{field.name}: {key}", it) for key, it in _numbers(inner))
            elif isinstance(inner, (int, float)) and not isinstance(inner, bool):
                yield field.name, inner


def _sentence(details: ErrorDetails) -> str:
    """What is wrong, with the key and what was found."""
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
    if evidence.failure is not None or evidence.origin != Origin.MEASURED:
        return False
    return not evidence.metrics or "examples" in evidence.digests or path.exists()


def _read_examples(path: Path, held: Held | None) -> Examples:
    optional = {**_EXAMPLES_OPTIONAL, SLICE: _TEXTS}
    arrays, slices = _split_slices(_read_columns(path, _EXAMPLES, optional, held))
    return Examples(**arrays, slices=slices)


def _read_trained_on(path: Path) -> TrainedOn:
    arrays, slices = _split_slices(_read_columns(path, _TRAINED_ON, {SLICE: _INTEGERS}))
    return TrainedOn(**arrays, slices=slices)


def _split_slices(
    arrays: dict[str, npt.NDArray[Any]],
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
    """The columns that every record has, and those of categories by their own names."""
    slices = {name[len(SLICE) :]: it for name, it in arrays.items() if name.startswith(SLICE)}
    return {name: it for name, it in arrays.items() if not name.startswith(SLICE)}, slices


def _read_columns(
    path: Path,
    columns: Mapping[str, tuple[str, int]],
    optional: Mapping[str, tuple[str, int]] = MappingProxyType({}),
    held: Held | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Read the named columns; each has a numpy kind and a number of dimensions.

    `optional` holds columns that need not be there, by how their names begin. Numbers come back in
    double precision and as 64-bit integers. Raises EvidenceError.
    """
    _check_plain_file(path, MOST_COLUMN_BYTES)
    kinds = dict(columns)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename: member for member in archive.infolist()}
            unpacked = sum(member.file_size for member in members.values())
        if unpacked > MOST_COLUMN_BYTES:
            raise EvidenceError(f"{path.name} unpacks to more than {MOST_COLUMN_BYTES} bytes")
        # allow_pickle=False: an evidence folder may come from anywhere.
        with np.load(path, allow_pickle=False) as stored:
            for start, expected in optional.items():
                kinds.update({name: expected for name in stored.files if name.startswith(start)})
            arrays = {}
            for name in kinds.keys() & {*stored.files}:
                member = members[f"{name}.npy"]
                key = (name, member.CRC, member.file_size)
                arrays[name] = held[key] if held and key in held else stored[name]
                if held is not None and name not in _OF_A_MODEL:
                    held[key] = arrays[name]
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


def _converted(where: str, found: Any, kind: str, dimensions: int) -> npt.NDArray[Any]:
    """The column in the type that all code uses; `found` is bytes if it is not an array."""
    if not isinstance(found, np.ndarray):
        raise EvidenceError(f"{where} is not an array")
    if found.dtype.kind != kind or found.ndim != dimensions:
        raise EvidenceError(
            f"{where} has type {found.dtype} and {found.ndim} dimensions, "
            f"expected kind {kind!r} and {dimensions}"
        )
    if kind == "U":
        text = np.ascontiguousarray(found.astype(found.dtype.newbyteorder("="), copy=False))
        # Code points beyond the last one crash Python's own functions.
        if text.size and text.itemsize and text.view(np.uint32).max() > 0x10FFFF:
            raise EvidenceError(f"{where} holds something other than text")
        return text
    if kind == "b":
        return found
    with np.errstate(over="ignore"):  # of extended precision; infinity is judged later
        return found.astype(np.float64 if kind == "f" else np.int64, copy=False)


_Part = TypeVar("_Part", Steps, Examples, ParityErrors, PairedBlocks, TrainedOn)


def well_formed(record: EvidenceRecord) -> EvidenceRecord:
    """The record, whose columns have the types and lengths that they must have.

    Raises EvidenceError. What is given in memory is held against the same as what was read.
    """
    evidence = record.evidence
    parity = paired = None
    if record.parity is not None and evidence.parity is not None and has_parity(evidence):
        parity = _typed(PARITY_FILE, record.parity, _PARITY)
        _check_parity(record.parity, evidence.parity.steps)
    if evidence.failure is not None:  # of a job that ended since its arithmetic is wrong
        empty = EvidenceRecord(evidence, None, None, as_written=record.as_written)
        return replace(empty, parity=parity)
    if evidence.origin == Origin.MEASURED:
        for name in ("speed", "compiler"):
            if getattr(evidence, name) is None:
                raise EvidenceError(f"{EVIDENCE_FILE}: {name} is missing")
    steps = _typed(STEPS_FILE, record.steps, _STEPS)
    if steps is not None:
        _check_lengths(STEPS_FILE, {"loss": steps.loss, "seconds": steps.seconds})
        _check_resumptions(evidence, len(steps.loss))
    if record.paired is not None and has_paired_speed(evidence):
        paired = _typed(PAIRED_FILE, record.paired, _PAIRED)
        _check_lengths(PAIRED_FILE, vars(record.paired))
    examples = _typed(EXAMPLES_FILE, record.examples, _EXAMPLES | _EXAMPLES_OPTIONAL)
    if examples is not None:
        if (examples.targets is None) != (examples.predictions is None):
            raise EvidenceError(f"{EXAMPLES_FILE}: only one of targets and predictions is there")
        columns = {name: it for name, it in vars(examples).items() if name != "slices"}
        columns.update({f"{SLICE}{name}": it for name, it in examples.slices.items()})
        _check_lengths(EXAMPLES_FILE, columns)
    trained_on = _typed(TRAINED_ON_FILE, record.trained_on, _TRAINED_ON)
    return replace(
        record, steps=steps, examples=examples, parity=parity, paired=paired, trained_on=trained_on
    )


def _typed(file: str, part: _Part | None, columns: Mapping[str, tuple[str, int]]) -> _Part | None:
    """The part with its numbers in double precision: sums over half a million numbers in half
    precision are none."""
    if part is None:
        return None
    wide = {}
    for name, (kind, dimensions) in columns.items():
        found = getattr(part, name)
        if found is None and name in _EXAMPLES_OPTIONAL:
            continue
        if not isinstance(found, np.ndarray):
            raise EvidenceError(f"{file}: column {name} is not an array")
        if found.dtype.kind not in _IN_MEMORY[kind] or found.ndim != dimensions:
            raise EvidenceError(
                f"{file}: column {name} has type {found.dtype} and {found.ndim} dimensions, "
                f"expected kind {kind!r} and {dimensions}"
            )
        if kind == "f" and found.dtype != np.float64:
            wide[name] = found.astype(np.float64)
    return replace(part, **wide) if wide else part


def _check_lengths(file: str, columns: Mapping[str, Any]) -> None:
    """Whether all columns have a value of every row."""
    there = {name: column for name, column in columns.items() if column is not None}
    lengths = {name: len(it) if np.ndim(it) else 0 for name, it in there.items()}
    if len(set(lengths.values())) > 1:
        raise EvidenceError(f"{file}: columns of different lengths: {lengths}")


def _check_resumptions(evidence: Evidence, steps: int) -> None:
    """Resumptions say which steps do not count for the speed, so they must name steps that there
    are."""
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


def same_column(one: npt.NDArray[Any] | None, other: npt.NDArray[Any] | None) -> bool:
    """Whether two columns hold the same rows; at once where they are one array."""
    if one is None or other is None:
        return one is other
    return one is other or np.array_equal(one, other)


def take_rows(examples: Examples, rows: RowSelection) -> Examples:
    """The examples at `rows`, an index or mask over them, in that order."""

    optional = {name: getattr(examples, name) for name in _EXAMPLES_OPTIONAL}
    return Examples(
        ids=examples.ids[rows],
        labels=examples.labels[rows],
        scores=examples.scores[rows],
        losses=examples.losses[rows],
        slices={name: column[rows] for name, column in examples.slices.items()},
        **{name: None if column is None else column[rows] for name, column in optional.items()},
    )


def in_the_order_of(examples: Examples, reference: Examples) -> Examples:
    """The same rows in the reference's order, so that rows of two jobs meet.

    Both must hold the same ids. Nothing is copied where the order is the same already.
    """
    if same_column(examples.ids, reference.ids):
        return examples
    rows = np.empty(len(examples.ids), dtype=np.int64)
    rows[np.argsort(reference.ids, kind="stable")] = np.argsort(examples.ids, kind="stable")
    return take_rows(examples, rows)


def sharing(
    read: Iterable[tuple[Replicate, EvidenceRecord | EvidenceError]],
) -> Iterator[tuple[Replicate, EvidenceRecord | EvidenceError]]:
    """The same records; columns that are equal to those of the first are held once, so that a
    million ids are in memory once, and comparing them again takes no time."""
    known: Examples | None = None
    for replicate, record in read:
        if isinstance(record, EvidenceError) or record.examples is None:
            yield replicate, record
            continue
        known = known or record.examples
        yield replicate, replace(record, examples=_shared(record.examples, known))


def _shared(examples: Examples, known: Examples) -> Examples:
    same = {
        name: getattr(known, name)
        for name in ("ids", "labels", "targets", "inputs")
        if same_column(getattr(examples, name), getattr(known, name))
    }
    slices = {
        name: known.slices[name] if same_column(it, known.slices.get(name)) else it
        for name, it in examples.slices.items()
    }
    new = [same[name] is not getattr(examples, name) for name in same]
    new += [slices[name] is not it for name, it in examples.slices.items()]
    return replace(examples, **same, slices=slices) if any(new) else examples
