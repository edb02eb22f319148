"""Digests of an evidence record: what shows that it is the one that the job wrote.

sha256 in hexadecimal. `column_digests` gives those of a record's columns, by the names under which
``evidence.json`` keeps them; `document_digest` is that of ``evidence.json`` itself.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Mapping, Optional

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence.record import (
    SLICE,
    Examples,
    FloatArray,
    PairedBlocks,
    ParityErrors,
    Steps,
    TrainedOn,
)

_ROWS_PER_UPDATE = 65_536
OWN_DIGEST = "sha256"
"""Key of evidence.json under which the digest of all its other keys stands."""


def document_digest(document: Mapping[str, Any]) -> str:
    """The digest of evidence.json as parsed JSON, whatever its layout."""
    rest = {key: value for key, value in document.items() if key != OWN_DIGEST}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def column_digests(
    steps: Optional[Steps],
    examples: Optional[Examples],
    parity: Optional[ParityErrors],
    paired: Optional[PairedBlocks] = None,
    trained_on: Optional[TrainedOn] = None,
) -> Dict[str, str]:
    """The digests of what there is: `steps`, `examples` and `outputs`, `parity`, `paired`,
    `trained_on`."""
    digests = {}
    if steps is not None:
        digests["steps"] = steps_digest(steps)
    if examples is not None:
        digests["examples"] = examples_digest(examples)
        digests["outputs"] = outputs_digest(examples)
    if parity is not None:
        digests["parity"] = parity_digest(parity)
    if paired is not None:
        digests["paired"] = paired_digest(paired)
    if trained_on is not None:
        digests["trained_on"] = trained_on_digest(trained_on)
    return digests


def examples_digest(examples: Examples) -> str:
    """The digest of the example ids and labels in order: jobs that agree saw the same examples.

    Where there are targets, each follows its label; so do hashes of the inputs.
    """
    digest = hashlib.sha256()
    columns: List[Any] = [examples.ids, examples.labels]
    if examples.targets is not None:
        columns.append(examples.targets)
    if examples.inputs is not None:
        columns.append(examples.inputs)
    for start in range(0, len(examples.ids), _ROWS_PER_UPDATE):
        parts = [map(str, each[start : start + _ROWS_PER_UPDATE].tolist()) for each in columns]
        digest.update(("\n".join(map("\t".join, zip(*parts))) + "\n").encode())
    return digest.hexdigest()


def outputs_digest(examples: Examples) -> str:
    """The digest of the model's outputs: scores, losses, predicted numbers."""
    columns = {"scores": examples.scores, "losses": examples.losses}
    if examples.predictions is not None:
        columns["predictions"] = examples.predictions
    return _digest(columns)


def steps_digest(steps: Steps) -> str:
    """The digest of each step's loss and seconds, in order."""
    return _digest({"loss": steps.loss, "seconds": steps.seconds})


def parity_digest(parity: ParityErrors) -> str:
    """The digest of the tensors' names and all errors."""
    errors = {"eager": parity.eager, "repeated": parity.repeated, "compiled": parity.compiled}
    return _digest(errors, names=parity.tensors)


def paired_digest(paired: PairedBlocks) -> str:
    """The digest of each pair's two step times, and of which was first, in order."""
    return _digest(
        {
            "baseline_seconds": paired.baseline_seconds,
            "candidate_seconds": paired.candidate_seconds,
            "baseline_first": paired.baseline_first.astype(np.float64),
        }
    )


def trained_on_digest(trained_on: TrainedOn) -> str:
    """The digest of all hashes that are kept."""
    digest = hashlib.sha256()
    slices = [(f"{SLICE}{name}", trained_on.slices[name]) for name in sorted(trained_on.slices)]
    for name, hashes in (("ids", trained_on.ids), ("inputs", trained_on.inputs), *slices):
        digest.update(f"{name} {hashes.shape}\n".encode())
        digest.update(np.ascontiguousarray(hashes, dtype="<i8").data)
    return digest.hexdigest()


def _digest(columns: Mapping[str, FloatArray], names: Optional[npt.NDArray[np.str_]] = None) -> str:
    digest = hashlib.sha256()
    for text in [] if names is None else names.tolist():
        # Names may hold anything that a damaged file can, halves of surrogate pairs too.
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%s" % (len(encoded), encoded))
    for name, column in columns.items():
        digest.update(f"{name} {column.shape}\n".encode())
        digest.update(np.ascontiguousarray(column, dtype="<f8").data)
    return digest.hexdigest()
