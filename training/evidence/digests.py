"""Digests of an evidence record's columns."""

from __future__ import annotations

import hashlib

from training.evidence.record import Examples

_ROWS_PER_UPDATE = 65_536


def examples_digest(examples: Examples) -> str:
    """sha256 of the example ids and labels in order: two jobs that agree saw the same examples.

    Where there are targets, each follows its label.
    """
    digest = hashlib.sha256()
    columns = [examples.ids, examples.labels]
    if examples.targets is not None:
        columns.append(examples.targets)
    row = "\t".join(["%s"] * len(columns)) + "\n"
    for start in range(0, len(examples.ids), _ROWS_PER_UPDATE):
        rows = [column[start : start + _ROWS_PER_UPDATE].tolist() for column in columns]
        digest.update("".join(map(row.__mod__, zip(*rows))).encode())
    return digest.hexdigest()
