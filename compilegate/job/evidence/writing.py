"""Writes an evidence folder, file by file, each whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any, Mapping, Optional, Union

import numpy as np
import numpy.typing as npt

from compilegate.job import names
from compilegate.job.evidence.digests import OWN_DIGEST, column_digests, document_digest
from compilegate.job.evidence.record import (
    Evidence,
    EvidenceError,
    Examples,
    Origin,
    PairedBlocks,
    ParityErrors,
    Steps,
    TrainedOn,
    columns,
    has_paired_speed,
    has_parity,
)
from compilegate.job.files import whole_file, write_text


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
    """Write the evidence folder, in place of an earlier one, and return it. A folder that has
    `evidence.json` is whole: it is removed first and written last.

    Digests of the columns are added to the evidence's own, where it does not name them itself.
    Raises EvidenceError when a job that measured itself and did not fail lacks steps, or examples
    and metrics both; when a table and its record in the evidence do not belong together; or if an
    example id is not valid text.
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
    try:
        digests = column_digests(steps, examples, parity, paired, trained_on)
    except UnicodeEncodeError as error:
        raise EvidenceError(f"an example id is not valid text: {error}") from error
    evidence = dataclasses.replace(evidence, digests={**digests, **evidence.digests})
    document = json.loads(json.dumps(dataclasses.asdict(evidence)))  # as a reader will find it
    document[OWN_DIGEST] = document_digest(document)

    folder = Path(output_data_dir) / names.EVIDENCE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        names.STEPS_FILE: steps,
        names.EXAMPLES_FILE: examples,
        names.PARITY_FILE: parity,
        names.PAIRED_FILE: paired,
        names.TRAINED_ON_FILE: trained_on,
    }
    for name in (names.EVIDENCE_FILE, *tables):
        if (folder / name).exists():
            (folder / name).unlink()
    for name, table in tables.items():
        if table is not None:
            _write_arrays(folder / name, columns(table))
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    write_text(folder / names.EVIDENCE_FILE, text)
    return folder


def _write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    with whole_file(path, alone=True) as part, zipfile.ZipFile(part, "w") as archive:
        for name, array in arrays.items():
            # Floats hardly shrink, and packing them takes the job longer than all else here.
            packed = zipfile.ZIP_STORED if array.dtype.kind == "f" else zipfile.ZIP_DEFLATED
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = packed
            plain = array.astype(np.str_) if array.dtype.kind == "O" else array  # texts of pandas
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, plain, allow_pickle=False)
