"""Digests of an evidence record, sha256 in hexadecimal: what shows that it is the one that the job
wrote. `column_digests` gives those of its columns, `document_digest` that of ``evidence.json``.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Mapping, Optional

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence.record import (
    Examples,
    PairedBlocks,
    ParityErrors,
    Steps,
    TrainedOn,
    columns,
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
    """The digests of what there is, by the keys of `Evidence.digests`."""
    tables = {"steps": steps, "parity": parity, "paired": paired, "trained_on": trained_on}
    found = {name: _digest(columns(table)) for name, table in tables.items() if table is not None}
    if examples is not None:
        found.update(examples=examples_digest(examples), outputs=outputs_digest(examples))
    return found


def examples_digest(examples: Examples) -> str:
    """The digest of each example's id, label, target and input in order: jobs that agree saw the
    same examples."""
    digest = hashlib.sha256()
    optional = [each for each in (examples.targets, examples.inputs) if each is not None]
    rows = [examples.ids, examples.labels, *optional]
    for start in range(0, len(examples.ids), _ROWS_PER_UPDATE):
        parts = [map(str, each[start : start + _ROWS_PER_UPDATE].tolist()) for each in rows]
        digest.update(("\n".join(map("\t".join, zip(*parts))) + "\n").encode())
    return digest.hexdigest()


def outputs_digest(examples: Examples) -> str:
    """The digest of the model's outputs: scores, losses, predicted numbers."""
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
