"""The rows of an evidence record's examples: compared, put in order, taken, and held once.

All columns of a record move together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from compilegate.job.evidence import Examples

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
        inputs=shared(examples.inputs, known.inputs),
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
        inputs=None if examples.inputs is None else examples.inputs[rows],
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
