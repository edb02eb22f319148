"""One file of rows becomes two, training and validation: always the same way. Pure.

Rows are drawn by a digest of what they hold, so that neither their order nor chance decides, and
equal rows land on one side: a model is never compared on what it was trained on.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

VALIDATION_SHARE = 0.2


def split_rows(
    rows: Sequence[Row], *, same_by: Sequence[str], spread_by: str | None
) -> tuple[list[Row], list[Row]]:
    """Training and validation rows, in the order they had.

    Rows that agree in the columns `same_by` stay together. With `spread_by`, each value of that
    column gives a fifth of its rows; one that has a single row is only trained on.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        groups["" if spread_by is None else str(row[spread_by])].append(number)
    chosen: set[int] = set()
    for numbers in groups.values():
        chosen |= _drawn(rows, numbers, same_by)
    return (
        [row for number, row in enumerate(rows) if number not in chosen],
        [row for number, row in enumerate(rows) if number in chosen],
    )


def _drawn(rows: Sequence[Row], numbers: Sequence[int], same_by: Sequence[str]) -> set[int]:
    alike: dict[str, list[int]] = defaultdict(list)
    for number in numbers:
        alike[_digest(rows[number], same_by)].append(number)
    drawn: set[int] = set()
    wanted = round(len(numbers) * VALIDATION_SHARE)
    for digest in sorted(alike)[:-1]:  # the last stays: something has to be trained on
        if len(drawn) >= wanted:
            break
        drawn |= set(alike[digest])
    return drawn


def _digest(row: Row, columns: Sequence[str]) -> str:
    cells = "\0".join(str(row[column]) for column in columns)
    return hashlib.sha256(cells.encode()).hexdigest()
