"""Writes an evidence folder, file by file, each whole or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from compilegate.job import contract
from compilegate.job.evidence.record import (
    SLICE,
    Evidence,
    EvidenceError,
    EvidenceOrigin,
    Examples,
    IntArray,
    PairedBlocks,
    ParityErrors,
    Steps,
    TrainedOn,
    columns,
    has_paired_speed,
    has_parity,
)
from compilegate.job.files import whole_file, write_text

_ROWS_PER_UPDATE = 65_536
OWN_DIGEST = "sha256"  # key of evidence.json under which the digest of all its other keys stands


def document_digest(document: Mapping[str, Any]) -> str:
    """The digest of evidence.json as parsed JSON, whatever its layout."""
    rest = {key: value for key, value in document.items() if key != OWN_DIGEST}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def column_digests(
    steps: Steps | None,
    examples: Examples | None,
    parity: ParityErrors | None,
    paired: PairedBlocks | None = None,
    trained_on: TrainedOn | None = None,
) -> dict[str, str]:
    """The digests of what there is, by the keys of `Evidence.digests`."""
    tables = {"steps": steps, "parity": parity, "paired": paired, "trained_on": trained_on}
    found = {name: _digest(columns(table)) for name, table in tables.items() if table is not None}
    if examples is not None:
        found.update(examples=examples_digest(examples), outputs=outputs_digest(examples))
    return found


def examples_digest(examples: Examples) -> str:
    """The digest of each example's id, label, target and input in order."""
    digest = hashlib.sha256()
    optional = [each for each in (examples.targets, examples.inputs) if each is not None]
    rows = [examples.ids, examples.labels, *optional]
    for start in range(0, len(examples.ids), _ROWS_PER_UPDATE):
        parts = [map(str, each[start : start + _ROWS_PER_UPDATE].tolist()) for each in rows]
        digest.update(("\n".join(map("\t".join, zip(*parts))) + "\n").encode())
    return digest.hexdigest()


def outputs_digest(examples: Examples) -> str:
    found = columns(examples)
    outputs = ("scores", "losses", "predictions")
    return _digest({name: found[name] for name in outputs if name in found})


def _digest(found: Mapping[str, npt.NDArray[Any]]) -> str:
    """The digest of columns in order; texts without their column's name."""
    digest = hashlib.sha256()
    for name, column in found.items():
        if column.dtype.kind in "UO":
            for text in column.tolist():
                # May hold anything that a damaged file can, halves of surrogate pairs too.
                encoded = str(text).encode("utf-8", "surrogatepass")
                digest.update(b"%d:%s" % (len(encoded), encoded))
        else:
            digest.update(f"{name} {column.shape}\n".encode())
            kind = "<i8" if column.dtype.kind == "i" else "<f8"
            digest.update(np.ascontiguousarray(column, dtype=kind).data)
    return digest.hexdigest()


MOST_HASHES = 100_000  # hashes that are kept of the ids, and of the inputs


def as_array(values: Any) -> npt.NDArray[Any]:
    """What a script has, as an array: tensors of any device, lists, arrays."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if values.is_floating_point() and values.element_size() < 4:
            values = values.float()
    return np.asarray(values)


def hashed(values: Any) -> IntArray:
    """(rows,) a hash of each text, id or number, or of each row of an array or a tensor."""
    alone = isinstance(values, (list, tuple)) and not hasattr(next(iter(values), ""), "detach")
    rows = values if alone else as_array(values)
    return np.fromiter((_hash(each) for each in rows), dtype=np.int64, count=len(rows))


def _hash(value: Any) -> int:
    if isinstance(value, (np.ndarray, list, tuple)):
        data = np.ascontiguousarray(value)
        raw = f"{data.shape}".encode() + (
            data.astype(np.int64).tobytes() if data.dtype.kind in "iub" else data.tobytes()
        )
    else:
        raw = str(value).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little", signed=True)


class TrainedRows:
    """The hashes of training examples, given at once or batch by batch."""

    def __init__(self) -> None:
        self._parts: dict[str, list[IntArray]] = {"ids": [], "inputs": []}

    def add(
        self, ids: Any = None, inputs: Any = None, slices: Mapping[str, Any] | None = None
    ) -> None:
        """Take in more `ids`, `inputs`, or categories by column, in constant memory."""
        for name, values in {"ids": ids, "inputs": inputs}.items():
            if values is not None:
                self._keep(name, hashed(values))
        for name, values in (slices or {}).items():
            self._keep(SLICE + name, hashed(np.unique(as_array(values).astype(np.str_))))

    def _keep(self, name: str, hashes: IntArray) -> None:
        parts = self._parts.setdefault(name, [])
        parts.append(hashes)
        if len(parts) > 500 or len(hashes) > 5000:  # often enough for memory, seldom for time
            parts[:] = [_smallest(parts)]

    def trained_on(self) -> TrainedOn | None:
        """The smallest of each, in order, each once; None where there are none."""
        if not any(self._parts.values()):
            return None
        found = {name: _smallest(parts) for name, parts in self._parts.items()}
        ids, inputs = found.pop("ids"), found.pop("inputs")
        return TrainedOn(ids, inputs, {name[len(SLICE) :]: each for name, each in found.items()})


def _smallest(parts: Sequence[IntArray]) -> IntArray:
    joined = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    return np.asarray(np.unique(joined)[:MOST_HASHES])


def record_failure(output_data_dir: str | Path, evidence: Evidence) -> None:
    """Write evidence that says why a job left no model, and print the reason."""
    print(f"recorded: arm {evidence.arm} left no model: {evidence.failure}", flush=True)
    write_evidence(output_data_dir, evidence)


def write_evidence(
    output_data_dir: str | Path,
    evidence: Evidence,
    steps: Steps | None = None,
    examples: Examples | None = None,
    parity: ParityErrors | None = None,
    *,
    paired: PairedBlocks | None = None,
    trained_on: TrainedOn | None = None,
) -> Path:
    """Write the evidence folder in place of an earlier one. `evidence.json` is removed first and
    written last, so a folder that has it is whole.

    Digests of the columns are added. Raises EvidenceError when a measured job lacks steps, or both
    examples and metrics; when a table lacks its record; or if an example id is not valid text.
    """
    if evidence.origin == EvidenceOrigin.MEASURED and evidence.failure is None:
        if None in (steps, evidence.speed, evidence.compiler):
            raise EvidenceError("evidence of a trained model needs steps, speed and compiler")
        if examples is None and not evidence.metrics:
            raise EvidenceError("evidence of a trained model needs examples, or metrics")
    if (parity is not None) != has_parity(evidence):
        raise EvidenceError("parity errors go with a parity record that names no obstacle")
    if (paired is not None) != has_paired_speed(evidence):
        raise EvidenceError("paired blocks go with a paired speed record that names no obstacle")
    try:
        digests = column_digests(steps, examples, parity, paired, trained_on)
    except UnicodeEncodeError as error:
        raise EvidenceError(f"an example id is not valid text: {error}") from error
    evidence = dataclasses.replace(evidence, digests={**digests, **evidence.digests})
    document = json.loads(json.dumps(dataclasses.asdict(evidence)))  # as a reader will find it
    document[OWN_DIGEST] = document_digest(document)

    folder = Path(output_data_dir) / contract.EVIDENCE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        contract.STEPS_FILE: steps,
        contract.EXAMPLES_FILE: examples,
        contract.PARITY_FILE: parity,
        contract.PAIRED_FILE: paired,
        contract.TRAINED_ON_FILE: trained_on,
    }
    for name in (contract.EVIDENCE_FILE, *tables):
        (folder / name).unlink(missing_ok=True)
    for name, table in tables.items():
        if table is not None:
            _write_arrays(folder / name, columns(table))
    write_text(
        folder / contract.EVIDENCE_FILE, json.dumps(document, indent=2, sort_keys=True) + "\n"
    )
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
