"""Rows of the per-example columns: all of an evidence record's columns move together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from training.evidence import Examples

RowSelection = npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice


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
    if np.array_equal(examples.ids, reference.ids):
        return examples
    rows = np.empty(len(examples.ids), dtype=np.int64)
    rows[np.argsort(reference.ids, kind="stable")] = np.argsort(examples.ids, kind="stable")
    return take_rows(examples, rows)
