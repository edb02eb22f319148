"""Slices: the parts of the validation data on which a metric is guarded or watched as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compilegate.evidence import Examples
from compilegate.gate.reasons import Code, Note, Outcome, Reason, clipped
from compilegate.gate.settings import SliceGuard

MOST_CATEGORIES = 200
"""How many one column may have: with more it is an identifier, not a category."""


@dataclass(frozen=True)
class Part:
    """One slice that can be judged."""

    guard: SliceGuard
    name: str
    """``column = value``, as reports show it."""
    rows: npt.NDArray[np.int64]
    """The examples' rows, in the order that all replicates share."""


def parts_of(guard: SliceGuard, examples: Examples) -> Iterator[Part | Reason | Note]:
    """The slices that a guard declares, or what is wrong with each: missing, or too small."""
    categories = examples.slices.get(guard.column)
    if categories is None:
        there = ", ".join(sorted(examples.slices)) or "none"
        yield _finding(
            guard,
            Code.SLICE_MISSING,
            Outcome.FAIL,
            f"The examples have no column {guard.column!r} (columns of categories: "
            f"{clipped(there)}).",
        )
        return
    values = np.unique(categories).tolist() if guard.value is None else [guard.value]
    if len(values) > MOST_CATEGORIES:
        yield _finding(
            guard,
            Code.SLICE_UNDEFINED,
            Outcome.FAIL,
            f"Column {guard.column!r} has {len(values)} categories, {MOST_CATEGORIES} at most can "
            "be judged: name the value, or group them.",
        )
        return
    for value in values:
        yield _part(guard, value, np.flatnonzero(categories == value))


def undefined(part: Part, why: str) -> Reason | Note:
    """The metric cannot be computed on the slice's examples."""
    sentence = f"{part.guard.metric} where {part.name} cannot be judged: {why}."
    return _finding(part.guard, Code.SLICE_UNDEFINED, Outcome.INCONCLUSIVE, sentence)


def _part(guard: SliceGuard, value: str, rows: npt.NDArray[np.int64]) -> Part | Reason | Note:
    name = f"{guard.column} = {clipped(value, 60)}"
    if len(rows) == 0:
        sentence = f"No example has {name}, where {guard.metric} is to be judged."
        return _finding(guard, Code.SLICE_MISSING, Outcome.FAIL, sentence)
    if len(rows) < guard.min_examples:
        sentence = (
            f"{guard.metric} where {name} is not judged: {len(rows)} examples, "
            f"min_examples is {guard.min_examples}."
        )
        return _finding(guard, Code.SLICE_TOO_SMALL, Outcome.INCONCLUSIVE, sentence)
    return Part(guard, name, rows)


def _finding(guard: SliceGuard, code: Code, outcome: Outcome, sentence: str) -> Reason | Note:
    numbers = {"column": guard.column, "value": guard.value, "metric": guard.metric}
    if guard.watched:
        return Note(code, f"{sentence} It is only watched.", numbers)
    return Reason(code, outcome, sentence, numbers)
