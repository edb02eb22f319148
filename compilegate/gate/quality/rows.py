"""What is known of validation examples, found out once for all replicates with the same rows.

Comparing a million ids takes far less time than hashing them.

Rows of the per-example columns: all of an evidence record's columns move together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence import Examples, examples_digest

RowSelection = npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice
Column = TypeVar("Column", bound=npt.NDArray[Any] | None)


def same_column(one: npt.NDArray[Any] | None, other: npt.NDArray[Any] | None) -> bool:
    """Whether two columns hold the same rows; at once where they are one array (`sharing`)."""
    if one is None or other is None:
        return one is other
    return one is other or np.array_equal(one, other)


def sharing(examples: Examples, known: Examples) -> Examples:
    """The same examples, holding the arrays of `known` for each column that is equal there.

    What replicates are scored on is the same for all of them: then a million ids are in memory
    once, and comparing them again takes no time.
    """

    def shared(ours: Column, theirs: Column) -> Column:
        return theirs if same_column(ours, theirs) else ours

    return replace(
        examples,
        ids=shared(examples.ids, known.ids),
        labels=shared(examples.labels, known.labels),
        targets=shared(examples.targets, known.targets),
        slices={
            name: shared(categories, known.slices.get(name, categories))
            for name, categories in examples.slices.items()
        },
    )


def take_rows(examples: Examples, rows: RowSelection) -> Examples:
    """The examples at `rows`, an index or mask over them, in that order."""
    return Examples(
        ids=examples.ids[rows],
        labels=examples.labels[rows],
        scores=examples.scores[rows],
        losses=examples.losses[rows],
        targets=None if examples.targets is None else examples.targets[rows],
        predictions=None if examples.predictions is None else examples.predictions[rows],
        slices={name: categories[rows] for name, categories in examples.slices.items()},
    )


def in_the_order_of(examples: Examples, reference: Examples) -> Examples:
    """The same rows in the reference's order, so that rows of two jobs meet.

    Both must hold the same ids. Nothing is copied where the order is the same already.
    """
    if same_column(examples.ids, reference.ids):
        return examples
    rows = np.empty(len(examples.ids), dtype=np.int64)
    rows[np.argsort(reference.ids, kind="stable")] = np.argsort(examples.ids, kind="stable")
    return take_rows(examples, rows)


TextArray = npt.NDArray[np.str_]


class KnownRows:
    """Digests and ids of the rows that were looked at last."""

    def __init__(self) -> None:
        self._digest: tuple[Examples, str] | None = None
        self._repeated: tuple[TextArray, int | None] | None = None

    def digest_of(self, examples: Examples) -> str:
        """As `compilegate.job.evidence.examples_digest`."""
        if self._digest is None or not _same_rows(self._digest[0], examples):
            self._digest = (examples, examples_digest(examples))
        return self._digest[1]

    def repeated_ids(self, ids: TextArray) -> int | None:
        """How many of the ids repeat another one; None where they are no valid text."""
        if self._repeated is None or not same_column(self._repeated[0], ids):
            self._repeated = (ids, _repeated(ids))
        return self._repeated[1]


def _same_rows(one: Examples, other: Examples) -> bool:
    return (
        same_column(one.ids, other.ids)
        and same_column(one.labels, other.labels)
        and same_column(one.targets, other.targets)
    )


def _repeated(ids: TextArray) -> int | None:
    texts = ids.tolist()
    try:
        "".join(texts).encode()
    except ValueError:  # code points that are no characters, or halves of a surrogate pair
        return None
    return len(texts) - len(set(texts))  # far faster than sorting strings
