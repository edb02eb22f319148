"""What a job trained on, as hashes: enough to find validation examples among the training data.

Kept are the smallest hashes of all, up to `MOST_HASHES` of each kind: a fair sample of any number
of examples in two megabytes, and the same sample of whatever data holds the same examples.
"""

from __future__ import annotations

import hashlib
from typing import Any, List, Mapping, Optional

import numpy as np

from compilegate.job.evidence.record import IntArray, TrainedOn

MOST_HASHES = 100_000
"""Hashes that are kept of the ids, and of the inputs."""


def hashed(values: Any) -> IntArray:
    """(rows,) a hash of each value: a text, a number, or a row of an array of any shape."""
    rows = values if isinstance(values, (list, tuple)) else np.asarray(values)
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


class SeenRows:
    """The hashes of training examples, given at once or batch by batch."""

    def __init__(self) -> None:
        self._parts: List[IntArray] = []
        self._waiting = 0

    def add(self, hashes: IntArray) -> None:
        """Take more of them in; memory does not grow with their number."""
        self._parts.append(hashes)
        self._waiting += len(hashes)
        if self._waiting > 2 * MOST_HASHES:
            self._parts, self._waiting = [self.kept()], 0

    def kept(self) -> IntArray:
        """The smallest, in order, each once."""
        if not self._parts:
            return np.zeros(0, dtype=np.int64)
        found: IntArray = np.unique(np.concatenate(self._parts))[:MOST_HASHES]
        return found


def trained_on(
    ids: Any = None, inputs: Any = None, slices: Optional[Mapping[str, Any]] = None
) -> TrainedOn:
    """What a job says of all its training examples: `ids`, `inputs` or categories by column."""
    found = [SeenRows(), SeenRows()]
    for seen, values in zip(found, (ids, inputs)):
        if values is not None:
            seen.add(hashed(values))
    return TrainedOn(
        *(seen.kept() for seen in found),
        slices={name: hashed_categories(values) for name, values in (slices or {}).items()},
    )


def hashed_categories(values: Any) -> IntArray:
    """The hashes of the categories that occur, in order."""
    seen = SeenRows()
    seen.add(hashed(np.unique(np.asarray(values).astype(np.str_))))
    return seen.kept()
