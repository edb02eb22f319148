"""Reads an evidence folder back: types, shapes and finiteness are checked, values not judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from compilegate.evidence.columns import read_columns
from compilegate.evidence.scalars import read_scalars
from compilegate.evidence.shapes import (
    check_examples,
    check_paired,
    check_parity,
    check_resumptions,
    check_steps,
)
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
        check_resumptions(evidence, len(steps.loss))
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


def _read_steps(path: Path) -> Steps:
    arrays = read_columns(path, {"loss": ("f", 1), "seconds": ("f", 1)})
    steps = Steps(loss=arrays["loss"], seconds=arrays["seconds"])
    check_steps(steps)
    return steps


def _read_examples(path: Path) -> Examples:
    arrays = read_columns(
        path,
        {"ids": ("U", 1), "labels": ("i", 1), "scores": ("f", 2), "losses": ("f", 1)},
        optional={"targets": ("f", 1), "predictions": ("f", 1), SLICE: ("U", 1)}
        | {"inputs": ("i", 1)},
    )
    examples = Examples(
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
    check_examples(examples)
    return examples


def _read_parity(path: Path, steps: int) -> ParityErrors:
    kinds = dict.fromkeys(("eager", "repeated", "compiled"), ("f", 2))
    arrays = read_columns(path, {"tensors": ("U", 1), **kinds})
    errors = ParityErrors(**arrays)
    check_parity(errors, steps)
    for name in kinds:
        if (arrays[name] < 0).any():
            raise EvidenceError(f"{path.name}: column {name} holds a negative error")
    return errors


def _read_paired(path: Path) -> PairedBlocks:
    arrays = read_columns(
        path,
        {"baseline_seconds": ("f", 1), "candidate_seconds": ("f", 1), "baseline_first": ("b", 1)},
    )
    blocks = PairedBlocks(**arrays)
    check_paired(blocks)
    for name in ("baseline_seconds", "candidate_seconds"):
        if not (np.isfinite(arrays[name]) & (arrays[name] > 0)).all():
            raise EvidenceError(
                f"{path.name}: column {name} holds a time that is not a positive finite number"
            )
    return blocks
