"""What must hold of a record whoever made it: read from a folder, or put together in memory. Pure.

A number that is none, or columns of different lengths, are damage wherever they come from. So
what `judge` is given is asked the same as what `read_evidence` has read, in the same words.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from compilegate.evidence.scalars import check_scalars
from compilegate.job.evidence.record import (
    SLICE,
    Evidence,
    EvidenceError,
    EvidenceRecord,
    Examples,
    Origin,
    PairedBlocks,
    ParityErrors,
    Steps,
    has_paired_speed,
    has_parity,
)
from compilegate.job.names import (
    EVIDENCE_FILE,
    EXAMPLES_FILE,
    PAIRED_FILE,
    PARITY_FILE,
    STEPS_FILE,
    TRAINED_ON_FILE,
)

_KINDS = {"f": "fiu", "i": "iu", "b": "b", "U": "U"}
"""Kinds of numpy that do for a column in memory, by the one that is written."""


_Part = TypeVar("_Part", Steps, Examples)


def usable(
    record: EvidenceRecord | EvidenceError,
) -> EvidenceRecord | EvidenceError:
    """The record, or why it cannot be used: as if it had been written and read back."""
    if isinstance(record, EvidenceError):
        return record
    try:
        _check_evidence(record.evidence)
        _check_parts(record)
    except EvidenceError as error:
        return error
    if record.steps is not None:
        record = dataclasses.replace(record, steps=_in_full(record.steps))
    if record.examples is not None:
        record = dataclasses.replace(record, examples=_in_full(record.examples))
    return record


def _in_full(part: _Part) -> _Part:
    """Its numbers in double precision, as they are read from a file: sums over half a million
    numbers in half precision are none."""
    narrow = {
        name: column.astype(np.float64)
        for name, column in vars(part).items()
        if isinstance(column, np.ndarray) and column.dtype.kind == "f" and column.dtype.itemsize < 8
    }
    return dataclasses.replace(part, **narrow) if narrow else part


def _check_evidence(evidence: Evidence) -> None:
    try:
        written = json.loads(json.dumps(dataclasses.asdict(evidence), default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise EvidenceError(f"{EVIDENCE_FILE} cannot be written: {error}") from error
    check_scalars(EVIDENCE_FILE, written)


def _plain(value: object) -> object:
    """What JSON has no word for, as numpy's own numbers."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no value of a record")


def _check_parts(record: EvidenceRecord) -> None:
    evidence = record.evidence
    if evidence.failure is not None:
        return
    if evidence.origin == Origin.MEASURED:
        for name in ("speed", "compiler"):
            if getattr(evidence, name) is None:
                raise EvidenceError(f"{EVIDENCE_FILE}: {name} is missing")
    if record.steps is not None:
        _check_kinds(STEPS_FILE, record.steps, {"loss": ("f", 1), "seconds": ("f", 1)})
        check_steps(record.steps)
        check_resumptions(evidence, len(record.steps.loss))
    if record.examples is not None:
        _check_kinds(EXAMPLES_FILE, record.examples, _OF_EXAMPLES)
        check_examples(record.examples)
    if record.parity is not None and evidence.parity is not None and has_parity(evidence):
        errors = dict.fromkeys(("eager", "repeated", "compiled"), ("f", 2))
        _check_kinds(PARITY_FILE, record.parity, {"tensors": ("U", 1), **errors})
        check_parity(record.parity, evidence.parity.steps)
    if record.paired is not None and has_paired_speed(evidence):
        seconds = dict.fromkeys(("baseline_seconds", "candidate_seconds"), ("f", 1))
        _check_kinds(PAIRED_FILE, record.paired, {**seconds, "baseline_first": ("b", 1)})
        check_paired(record.paired)
    if record.trained_on is not None:
        _check_kinds(TRAINED_ON_FILE, record.trained_on, {"ids": ("i", 1), "inputs": ("i", 1)})


_OF_EXAMPLES = {
    **{"ids": ("U", 1), "labels": ("i", 1), "scores": ("f", 2), "losses": ("f", 1)},
    **{"targets": ("f", 1), "predictions": ("f", 1), "inputs": ("i", 1)},
}


def _check_kinds(file: str, part: Any, columns: Mapping[str, tuple[str, int]]) -> None:
    for name, (kind, dimensions) in columns.items():
        found = getattr(part, name)
        if found is None and name in ("targets", "predictions", "inputs"):
            continue
        if not isinstance(found, np.ndarray):
            raise EvidenceError(f"{file}: column {name} is not an array")
        if found.dtype.kind not in _KINDS[kind] or found.ndim != dimensions:
            raise EvidenceError(
                f"{file}: column {name} has type {found.dtype} and {found.ndim} dimensions, "
                f"expected kind {kind!r} and {dimensions}"
            )


def check_resumptions(evidence: Evidence, steps: int) -> None:
    """Resumptions say which steps do not count for the speed, so they must name steps that there
    are. Raises EvidenceError."""
    for each in evidence.resumed:
        if not 0 < each.step <= each.steady_from <= steps:
            raise EvidenceError(
                f"{EVIDENCE_FILE}: checkpoints: resumed names step {each.step}, steady from "
                f"{each.steady_from}, expected a step after the first and no more than {steps}"
            )


def check_steps(steps: Steps) -> None:
    """Whether every step has a loss and a time. Raises EvidenceError."""
    if len(steps.loss) != len(steps.seconds):
        raise EvidenceError(
            f"{STEPS_FILE}: {len(steps.loss)} losses but {len(steps.seconds)} step times"
        )


def check_examples(examples: Examples) -> None:
    """Whether all columns have a value of every example. Raises EvidenceError."""
    if (examples.targets is None) != (examples.predictions is None):
        raise EvidenceError(f"{EXAMPLES_FILE}: of targets and predictions only one column is there")
    columns: dict[str, npt.NDArray[Any] | None] = {
        "ids": examples.ids,
        "labels": examples.labels,
        "scores": examples.scores,
        "losses": examples.losses,
        "targets": examples.targets,
        "predictions": examples.predictions,
        "inputs": examples.inputs,
        **{f"{SLICE}{name}": column for name, column in examples.slices.items()},
    }
    for name, column in columns.items():
        if column is not None and not np.ndim(column):
            raise EvidenceError(f"{EXAMPLES_FILE}: column {name} is no list of values")
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) != 1:
        raise EvidenceError(f"{EXAMPLES_FILE}: columns of different lengths: {lengths}")


def check_parity(errors: ParityErrors, steps: int) -> None:
    """Whether every step has an error of every tensor. Raises EvidenceError."""
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


def check_paired(blocks: PairedBlocks) -> None:
    """Whether every pair has two blocks. Raises EvidenceError."""
    columns = ("baseline_seconds", "candidate_seconds", "baseline_first")
    lengths = {name: len(getattr(blocks, name)) for name in columns}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise EvidenceError(
            f"{PAIRED_FILE}: columns have the lengths {lengths}, expected one row for each pair of "
            "blocks, one or more"
        )
