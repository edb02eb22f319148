"""Reads `evidence.json`: pydantic checks it against the types that the jobs write it with.

What holds for every number of the record is checked here once for all of them: a time, a size or a
count is finite and not negative. Whether a job can have measured it is the gate's question.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from compilegate.evidence.columns import check_plain_file
from compilegate.evidence.padding import padding_problems
from compilegate.job.evidence.digests import OWN_DIGEST, document_digest
from compilegate.job.evidence.hindrances import HINDRANCES
from compilegate.job.evidence.record import (
    CACHE_STATES,
    MEMORY_OF,
    SCHEMA_VERSION,
    Evidence,
    EvidenceError,
)

MOST_JSON_BYTES = 64 * 1024**2
MOST_ENTRIES = 2000
"""How many an object or a list may have: the environment of a job has some twenty."""
MOST_SHOWN = 60
"""Characters of a value that an error shows."""

_MAY_BE_LEFT_OUT = frozenset(
    {"failure", "parity", "compile_cache", "checkpoints", "paired_speed", "padding", "notes"}
    | {"peak_memory_bytes", "memory_of", "repro", "departs", "printed", "checkup", "hindrances"}
    | {"share", "where", "reason", "rule", "ending", "attempts"}
    | {"trained_parameters", "compared_parameters", "compared"}
)
"""Keys that a job may have nothing to say under."""
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

_ADAPTER = TypeAdapter(Evidence)


def read_scalars(path: Path) -> tuple[Evidence, bool]:
    """The record, and whether the file holds its own digest. Raises EvidenceError."""
    check_plain_file(path, MOST_JSON_BYTES)
    try:
        raw = json.loads(path.read_bytes().decode("utf-8"))
        if not isinstance(raw, dict):
            raise EvidenceError(f"{path.name} holds {type(raw).__name__}, expected an object")
        return check_scalars(path.name, raw), raw.get(OWN_DIGEST) == document_digest(raw)
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(f"{path.name} is not readable JSON: {error}") from error


def check_scalars(name: str, raw: Mapping[str, Any]) -> Evidence:
    """The record that a parsed document holds. Raises EvidenceError, which calls it `name`."""
    version = raw.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise EvidenceError(
            f"{name}: schema_version is {version!r}, this gate reads {SCHEMA_VERSION}"
        )
    try:
        # Strict validation of what has been parsed once already: a parser that reads the same bytes
        # otherwise would read another document than the one that has the digest.
        evidence = _ADAPTER.validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        raise EvidenceError(f"{name}: {_sentence(error.errors()[0])}") from error
    for where, found in _numbers(evidence):
        if not found >= 0 or found == math.inf:  # False for NaN too
            raise EvidenceError(
                f"{name}: {where} is {_shown(found)}, expected a finite number of zero or more"
            )
    missing = next(_missing(evidence, raw), None)
    if missing is not None:
        raise EvidenceError(f"{name}: {missing} is missing")
    problem = next(_problems(evidence), None)
    if problem is not None:
        raise EvidenceError(f"{name}: {problem}")
    return evidence


def _too_many(section: Any, where: str = "") -> Iterator[str]:
    """Collections with more entries than any job has something to say in."""
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        name = f"{where}{field.name}"
        if isinstance(value, (Mapping, tuple)) and len(value) > MOST_ENTRIES:
            yield f"{name} has {len(value):,} entries, expected {MOST_ENTRIES:,} at most"
        elif dataclasses.is_dataclass(value):
            yield from _too_many(value, f"{name}: ")


def _problems(evidence: Evidence) -> Iterator[str]:
    """What types do not say of the values."""
    yield from _too_many(evidence)
    state = None if evidence.compile_cache is None else evidence.compile_cache.state
    if state not in (None, *CACHE_STATES):
        allowed = " or ".join(map(repr, CACHE_STATES))
        yield f"compile_cache: state is {_shown(state)}, expected {allowed}"
    if evidence.memory_of not in (None, *MEMORY_OF):
        allowed = ", ".join(map(repr, MEMORY_OF))
        yield f"memory_of is {_shown(evidence.memory_of)}, expected {allowed} or null"
    if evidence.memory_of is not None and evidence.peak_memory_bytes is None:
        yield f"memory_of is {_shown(evidence.memory_of)} but peak_memory_bytes is not given"
    repro = None if evidence.parity is None else evidence.parity.repro
    if repro is not None and not _lies_within(repro):
        yield f"parity: repro is {_shown(repro)}, expected a path inside the evidence folder"
    for number, each in enumerate(evidence.hindrances):
        if each.kind not in HINDRANCES:
            allowed = ", ".join(map(repr, HINDRANCES))
            yield f"hindrances[{number}]: kind is {_shown(each.kind)}, expected {allowed}"
        if each.share is not None and each.share > 1:
            yield f"hindrances[{number}]: share is {_shown(each.share)}, expected 1 or less"
    if evidence.padding is not None:
        yield from (f"padding: {problem}" for problem in padding_problems(evidence.padding))


def _lies_within(path: str) -> bool:
    """Whether a relative path stays where it is told from, and names something there."""
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and path.isprintable()


def _numbers(section: Any) -> Iterator[tuple[str, float]]:
    """Every number of a section and of those in it, with its key."""
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        for inner in value if isinstance(value, tuple) else [value]:
            if dataclasses.is_dataclass(inner):
                for key, number in _numbers(inner):
                    yield f"{field.name}: {key}", number
            elif isinstance(inner, (int, float)) and not isinstance(inner, bool):
                yield field.name, inner


def _missing(section: Any, raw: Mapping[str, Any]) -> Iterator[str]:
    """Keys that were not given, though there is a default: a record says all that it can."""
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if field.name not in raw:
            if field.name not in _MAY_BE_LEFT_OUT:
                yield field.name
        elif dataclasses.is_dataclass(value):
            yield from (f"{field.name}: {key}" for key in _missing(value, raw[field.name]))
        elif isinstance(value, tuple):
            for number, inner in enumerate(value):
                if dataclasses.is_dataclass(inner):
                    found = _missing(inner, raw[field.name][number])
                    yield from (f"{field.name}[{number}]: {key}" for key in found)


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
    return shown if len(shown) <= MOST_SHOWN else shown[: MOST_SHOWN - 3] + "..."
