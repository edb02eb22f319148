"""Reads an evidence folder back: types, shapes and finiteness are checked, values not judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from compilegate.evidence.columns import read_columns
from compilegate.evidence.scalars import read_scalars
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
    TrainedOn,
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


def read_evidence(folder: str | Path) -> EvidenceRecord:
    """Read one evidence folder back, with the columns that a record of its origin has.

    Raises EvidenceError for anything missing, truncated, of a wrong type or of another schema
    version. It does not judge the values: that the losses are finite is the gate's question.
    """
    folder = Path(folder)
    evidence, as_written = read_scalars(folder / EVIDENCE_FILE)
    steps = examples = parity = paired = trained_on = None
    if evidence.failure is None and evidence.origin == Origin.MEASURED:
        if evidence.speed is None:
            raise EvidenceError(f"{EVIDENCE_FILE}: speed is missing")
        if evidence.compiler is None:
            raise EvidenceError(f"{EVIDENCE_FILE}: compiler is missing")
        steps = _read_steps(folder / STEPS_FILE)
        _check_resumptions(evidence, len(steps.loss))
        if evidence.parity is not None and has_parity(evidence):
            parity = _read_parity(folder / PARITY_FILE, evidence.parity.steps)
        if has_paired_speed(evidence):
            paired = _read_paired(folder / PAIRED_FILE)
        if "trained_on" in evidence.digests:
            columns = read_columns(folder / TRAINED_ON_FILE, {"ids": ("i", 1), "inputs": ("i", 1)})
            trained_on = TrainedOn(**columns)
    if _has_examples(evidence, folder / EXAMPLES_FILE):
        examples = _read_examples(folder / EXAMPLES_FILE)
    return EvidenceRecord(
        evidence,
        steps,
        examples,
        parity=parity,
        paired=paired,
        trained_on=trained_on,
        as_written=as_written,
    )


def _has_examples(evidence: Evidence, path: Path) -> bool:
    """Whether there must be examples; a job that measured itself may have metrics instead, and
    then no digest of any."""
    if evidence.failure is not None or evidence.origin not in (Origin.MEASURED, Origin.SCORED):
        return False
    without = evidence.origin == Origin.MEASURED and evidence.metrics
    return not without or "examples" in evidence.digests or path.exists()


def _check_resumptions(evidence: Evidence, steps: int) -> None:
    # They say which steps do not count for the speed, so they must name steps that there are.
    for each in evidence.resumed:
        if not 0 < each.step <= each.steady_from <= steps:
            raise EvidenceError(
                f"{EVIDENCE_FILE}: checkpoints: resumed names step {each.step}, steady from "
                f"{each.steady_from}, expected a step after the first and no more than {steps}"
            )


def _read_steps(path: Path) -> Steps:
    arrays = read_columns(path, {"loss": ("f", 1), "seconds": ("f", 1)})
    if len(arrays["loss"]) != len(arrays["seconds"]):
        raise EvidenceError(
            f"{path.name}: {len(arrays['loss'])} losses but {len(arrays['seconds'])} step times"
        )
    return Steps(loss=arrays["loss"], seconds=arrays["seconds"])


def _read_examples(path: Path) -> Examples:
    arrays = read_columns(
        path,
        {"ids": ("U", 1), "labels": ("i", 1), "scores": ("f", 2), "losses": ("f", 1)},
        optional={"targets": ("f", 1), "predictions": ("f", 1), SLICE: ("U", 1)}
        | {"inputs": ("i", 1)},
    )
    if ("targets" in arrays) != ("predictions" in arrays):
        raise EvidenceError(f"{path.name}: of targets and predictions only one column is there")
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise EvidenceError(f"{path.name}: columns of different lengths: {lengths}")
    return Examples(
        ids=arrays["ids"],
        labels=arrays["labels"],
        scores=arrays["scores"],
        losses=arrays["losses"],
        targets=arrays.get("targets"),
        predictions=arrays.get("predictions"),
        inputs=arrays.get("inputs"),
        slices={
            name[len(SLICE) :]: column for name, column in arrays.items() if name.startswith(SLICE)
        },
    )


def _read_parity(path: Path, steps: int) -> ParityErrors:
    kinds = dict.fromkeys(("eager", "repeated", "compiled"), ("f", 2))
    arrays = read_columns(path, {"tensors": ("U", 1), **kinds})
    tensors = arrays["tensors"]
    if len(np.unique(tensors)) != len(tensors):
        raise EvidenceError(f"{path.name}: column tensors names a tensor twice")
    for name in kinds:
        if arrays[name].shape != (steps, len(tensors)) or not arrays[name].size:
            raise EvidenceError(
                f"{path.name}: column {name} has shape {arrays[name].shape}, expected one row for "
                f"each of the {steps} steps (parity.steps in evidence.json) and one column for "
                f"each of the {len(tensors)} tensors, one or more of either"
            )
        if (arrays[name] < 0).any():
            raise EvidenceError(f"{path.name}: column {name} holds a negative error")
    return ParityErrors(tensors=tensors, **{name: arrays[name] for name in kinds})


def _read_paired(path: Path) -> PairedBlocks:
    arrays = read_columns(
        path,
        {"baseline_seconds": ("f", 1), "candidate_seconds": ("f", 1), "baseline_first": ("b", 1)},
    )
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise EvidenceError(
            f"{path.name}: columns have the lengths {lengths}, expected one row for each pair of "
            "blocks, one or more"
        )
    for name in ("baseline_seconds", "candidate_seconds"):
        if not (np.isfinite(arrays[name]) & (arrays[name] > 0)).all():
            raise EvidenceError(
                f"{path.name}: column {name} holds a time that is not a positive finite number"
            )
    return PairedBlocks(**arrays)
