"""Writes an evidence folder, file by file, each whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Union

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence.digests import OWN_DIGEST, column_digests, document_digest
from compilegate.job.evidence.record import (
    SLICE,
    Evidence,
    EvidenceError,
    Examples,
    Origin,
    PairedBlocks,
    ParityErrors,
    Steps,
    TrainedOn,
    has_paired_speed,
    has_parity,
)
from compilegate.job.files import whole_file, write_text
from compilegate.job.names import (
    EVIDENCE_FILE,
    EVIDENCE_FOLDER,
    EXAMPLES_FILE,
    PAIRED_FILE,
    PARITY_FILE,
    STEPS_FILE,
    TRAINED_ON_FILE,
)


def record_failure(output_data_dir: Union[str, Path], evidence: Evidence) -> None:
    """Write evidence that says why a job left no model, and print the reason."""
    print(f"recorded: arm {evidence.arm} left no model: {evidence.failure}", flush=True)
    write_evidence(output_data_dir, evidence)


def write_evidence(
    output_data_dir: Union[str, Path],
    evidence: Evidence,
    steps: Optional[Steps] = None,
    examples: Optional[Examples] = None,
    parity: Optional[ParityErrors] = None,
    *,
    paired: Optional[PairedBlocks] = None,
    trained_on: Optional[TrainedOn] = None,
) -> Path:
    """Write the evidence folder; `evidence.json` comes last, so a folder that has it is whole.

    Raises EvidenceError when a job that measured itself and did not fail lacks steps, or examples
    and metrics both, when `parity` and `evidence.parity` or
    `paired` and `evidence.paired_speed` do not belong together, or if an example id is not valid
    text. Digests of the columns are added to the evidence's own, where it does not name them
    itself. Returns the folder.
    """
    measured = evidence.origin == Origin.MEASURED and evidence.failure is None
    if measured and None in (steps, evidence.speed, evidence.compiler):
        raise EvidenceError(
            "evidence of a job that did not fail needs steps and a speed record, and what is known "
            "of the compiler"
        )
    if measured and examples is None and not evidence.metrics:
        raise EvidenceError("evidence of a job that did not fail needs examples, or metrics")
    if (parity is not None) != has_parity(evidence):
        raise EvidenceError(
            "parity errors go with a parity record that names no obstacle, and with no other"
        )
    if (paired is not None) != has_paired_speed(evidence):
        raise EvidenceError(
            "pairs of blocks go with a paired speed record that names no obstacle, and with no "
            "other"
        )
    digests = _digests(steps, examples, parity, paired, trained_on)
    evidence = dataclasses.replace(evidence, digests={**digests, **evidence.digests})
    folder = Path(output_data_dir) / EVIDENCE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in _all_columns(steps, examples, parity, paired, trained_on).items():
        _write_arrays(folder / name, columns)
    write_text(folder / EVIDENCE_FILE, _document(evidence))
    return folder


def _all_columns(
    steps: Optional[Steps],
    examples: Optional[Examples],
    parity: Optional[ParityErrors],
    paired: Optional[PairedBlocks],
    trained_on: Optional[TrainedOn],
) -> Dict[str, Dict[str, npt.NDArray[Any]]]:
    """By file, the columns of what there is."""
    found: Dict[str, Dict[str, npt.NDArray[Any]]] = {}
    if steps is not None:
        found[STEPS_FILE] = {"loss": steps.loss, "seconds": steps.seconds}
    if examples is not None:
        found[EXAMPLES_FILE] = _columns(examples)
    if parity is not None:
        found[PARITY_FILE] = _parity_columns(parity)
    if paired is not None:
        found[PAIRED_FILE] = _paired_columns(paired)
    if trained_on is not None:
        slices = {SLICE + name: hashes for name, hashes in trained_on.slices.items()}
        hashes = {"ids": trained_on.ids, "inputs": trained_on.inputs, **slices}
        found[TRAINED_ON_FILE] = hashes
    return found


def _document(evidence: Evidence) -> str:
    document = json.loads(json.dumps(dataclasses.asdict(evidence)))  # as a reader will find it
    document[OWN_DIGEST] = document_digest(document)
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def write_examples(folder: Union[str, Path], examples: Examples) -> Path:
    """Write examples alone: those of a model that was trained before. Returns the file."""
    path = Path(folder) / EXAMPLES_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_arrays(path, _columns(examples))
    return path


def _digests(
    steps: Optional[Steps],
    examples: Optional[Examples],
    parity: Optional[ParityErrors],
    paired: Optional[PairedBlocks],
    trained_on: Optional[TrainedOn],
) -> Dict[str, str]:
    try:
        return column_digests(steps, examples, parity, paired, trained_on)
    except UnicodeEncodeError as error:
        raise EvidenceError(f"an example id is not valid text: {error}") from error


def _parity_columns(parity: ParityErrors) -> Dict[str, npt.NDArray[Any]]:
    return {
        "tensors": np.asarray(parity.tensors, dtype=np.str_),
        "eager": parity.eager,
        "repeated": parity.repeated,
        "compiled": parity.compiled,
    }


def _paired_columns(paired: PairedBlocks) -> Dict[str, npt.NDArray[Any]]:
    return {
        "baseline_seconds": paired.baseline_seconds,
        "candidate_seconds": paired.candidate_seconds,
        "baseline_first": np.asarray(paired.baseline_first, dtype=np.bool_),
    }


def _columns(examples: Examples) -> Dict[str, npt.NDArray[Any]]:
    columns: Dict[str, npt.NDArray[Any]] = {
        "ids": np.asarray(examples.ids, dtype=np.str_),
        "labels": examples.labels,
        "scores": examples.scores,
        "losses": examples.losses,
    }
    if examples.targets is not None and examples.predictions is not None:
        columns["targets"] = examples.targets
        columns["predictions"] = examples.predictions
    if examples.inputs is not None:
        columns["inputs"] = examples.inputs
    for name, categories in examples.slices.items():
        columns[SLICE + name] = np.asarray(categories, dtype=np.str_)
    return columns


def _write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    with whole_file(path, alone=True) as part, zipfile.ZipFile(part, "w") as archive:
        for name, array in arrays.items():
            # Floats hardly shrink, and packing them takes the job longer than all else here.
            packed = zipfile.ZIP_STORED if array.dtype.kind == "f" else zipfile.ZIP_DEFLATED
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = packed
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
