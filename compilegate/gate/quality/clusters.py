"""Rows that go together: which of the validation examples are no evidence of their own.

Ten sentences of one document, ten frames of one film, ten augmented copies of one image are right
or wrong together. Counted as ten they make a bound three times too narrow: a third of the
candidates that sit on the margin passed. What goes together is the unit instead, found in this
order; the first that says anything is taken:

**Declared.** `[data] groups` names a column of the validation data, a patient, a document, a
customer; its values are the units.

**Inputs.** Rows of which the job says that the model was given the same, by the hashes in the
evidence, are one input several times.

**Repeated.** Rows that every model of every arm gives the same outputs, to five digits, are one
input several times. Outputs that are too coarse to tell rows apart by say nothing, and are left
alone: scores of two or three digits, constant predictions, losses of exactly zero. Unless every row
is there twice, or every row ten times: where there are many different answers and the number of
rows of each is even, the rows were doubled, since chance makes each number odd half of the time.

**Neighbours.** Rows of one source often lie side by side. Where the differences of neighbouring
rows resemble each other by far more than chance (one experiment of a thousand), blocks of that
many neighbours are the unit. The labels' means are taken out before, since rows may be in the order
of their classes. Units by inputs or by repetition are joined in the same way: coarse outputs tell
the rows of one source apart by their labels alone.

A unit's value is the sum of its rows' deviations from the mean, as the linearised ratio has it
(Cochran, "Sampling Techniques", 1977, section 9A.2), so that the mean of units is the mean of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from compilegate.evidence import Examples, FloatArray, IntArray
from compilegate.gate.reasons import Code, Note, Outcome, Reason, clipped, failure

DIGITS = 1e5
"""Outputs whose logarithms agree to one part of this are equal."""
ROUND = 1e4
"""Scores that are whole multiples of one part of this are rounded, and not fine enough."""
MOST_IN_ONE = 0.2
"""The share of rows in one group from which on the outputs are too coarse to tell rows apart by."""
LEAST_REPEATED = 0.02
"""The share of rows below which repetitions change no bound."""
FEWEST_LEVELS = 10
"""Distinct losses or predictions of a model; with fewer they say what a rule gives."""
FEWEST_ANSWERS = 20
"""Different answers whose rows are counted: that chance makes all of their numbers even happens
once in a million."""
MOST_SCORES = 4
"""Columns of scores that are looked at: four numbers of every model tell inputs apart."""
BLOCKS = (2, 3, 5, 7, 10, 14, 20, 30, 50)
"""Lengths of the blocks of neighbours that are tried."""
FEWEST_BLOCKS = 20
FAR = 4.0
"""Standard errors beyond which neighbours resemble each other: with nine lengths tried, chance
gets there in less than one experiment of a thousand."""
MOST_JOINED = 0.8
"""The share of units that are left where joining them says anything new."""
TINY = 1e-30
FEWEST_UNITS = 2
"""Fewer show no spread."""
FEW_UNITS = 20
"""Fewer make for wide bounds."""


class Source(Enum):
    """How units were found."""

    DECLARED = "declared"
    INPUTS = "inputs"
    REPEATED = "repeated"
    NEIGHBOURS = "neighbours"


@dataclass(frozen=True)
class Units:
    """The units of a set of rows."""

    of_row: IntArray
    """(rows,) the unit of each, from 0."""
    source: Source
    column: str | None = None
    """The declared column."""

    @property
    def count(self) -> int:
        """How many units there are."""
        return int(self.of_row.max()) + 1

    def of(self, rows: npt.NDArray[np.int64]) -> Units:
        """The units of some of the rows."""
        return Units(_numbered(self.of_row[rows]), self.source, self.column)

    def over(self, parts: Units | None) -> Units:
        """The same of rows, where these are units of such parts."""
        if parts is None:
            return self
        return Units(self.of_row[parts.of_row], self.source, self.column)

    def joined(self, blocks: Units) -> Units | None:
        """What these units go together in by blocks of rows, which their first rows lie in; None
        where that are hardly fewer."""
        first = np.unique(self.of_row, return_index=True)[1]
        found = Units(_numbered(blocks.of_row[first]), blocks.source)
        return found if found.count <= MOST_JOINED * self.count else None

    def of_each_row(self, columns: FloatArray) -> FloatArray:
        """(rows,) the mean deviation of each row's unit, by what `columns` gave."""
        sizes = np.bincount(self.of_row)
        each = (columns - columns.mean()) * (len(self.of_row) / (self.count * sizes))
        return np.asarray(each[self.of_row], dtype=np.float64)

    @property
    def are_alike(self) -> bool:
        """Whether none has many more rows than the usual."""
        sizes = np.bincount(self.of_row)
        return bool(sizes.max() <= 3.0 * sizes.mean())

    def columns(self, column: FloatArray) -> FloatArray:
        """(units,) values with the mean of the rows' values."""
        mean = float(column.mean())
        sums = np.bincount(self.of_row, weights=column - mean)
        return np.asarray(mean + sums * (len(sums) / len(column)), dtype=np.float64)

    @property
    def usual_size(self) -> float:
        """The root mean square of their sizes, as a multiple of the mean one."""
        sizes = np.bincount(self.of_row).astype(np.float64)
        return float(np.sqrt(np.mean(sizes**2)) / sizes.mean())

    def inflation(self) -> float:
        """By how much the error of a mean of these rows exceeds that of as many rows at most."""
        return float(np.sqrt(len(self.of_row) / self.count))


def declared_units(column: str, examples: Examples) -> Units | None:
    """The units by a column of categories; None where these examples lack it."""
    values = examples.slices.get(column)
    if values is None:
        return None
    return Units(_numbered(values), Source.DECLARED, column)


def repeated_units(replicates: Sequence[Examples]) -> Units | None:
    """The units by equal inputs, or equal outputs in all replicates; None where hardly any are."""
    rows = len(replicates[0].labels)
    inputs = replicates[0].inputs
    if inputs is not None:
        by_input = Units(_numbered(inputs), Source.INPUTS)
        if FEWEST_UNITS <= by_input.count <= (1.0 - LEAST_REPEATED) * rows:
            return by_input
    by_output = _by_output(replicates)
    if by_output is None:
        return _all_several_times(replicates)
    return by_output if by_output.count <= (1.0 - LEAST_REPEATED) * rows else None


def _by_output(replicates: Sequence[Examples]) -> Units | None:
    """The units by equal outputs, be there repetitions or not; None where outputs are too coarse to
    tell rows apart by."""
    rows = len(replicates[0].labels)
    found: IntArray | None = None
    for examples in replicates:
        signs = _signature(examples)
        if signs is None:
            return None
        numbered = _numbered(signs)
        found = numbered if found is None else _numbered(found * rows + numbered)
        if int(found.max()) + 1 > (1.0 - LEAST_REPEATED) * rows:
            return Units(found, Source.REPEATED)
    if found is None or np.bincount(found).max() > MOST_IN_ONE * rows:
        return None
    return Units(found, Source.REPEATED)


def _all_several_times(replicates: Sequence[Examples]) -> Units | None:
    """The units where every answer is there the same number of times, or a multiple of it."""
    rows = len(replicates[0].labels)
    found = np.zeros(rows, dtype=np.int64)
    for examples in replicates:
        said = [examples.labels, examples.losses, *examples.scores.T[:MOST_SCORES]]
        said += [each for each in (examples.targets, examples.predictions) if each is not None]
        for column in said:
            found = _numbered(found * rows + _numbered(column))
        if int(found.max()) + 1 > rows // 2:
            return None
    times = np.bincount(found)
    each = int(np.gcd.reduce(times))
    if each < 2 or len(times) < FEWEST_ANSWERS:
        return None
    # Rows of one answer are alike, whichever of them are taken together.
    units = np.empty(rows, dtype=np.int64)
    units[np.argsort(found, kind="stable")] = np.arange(rows) // each
    return Units(units, Source.REPEATED)


def neighbouring_units(differences: FloatArray, labels: IntArray) -> Units | None:
    """The units by likeness of neighbours in (rows,) differences; None where they are not alike."""
    rows = len(differences)
    means = np.bincount(labels, weights=differences) / np.maximum(np.bincount(labels), 1)
    left = differences - means[labels]
    variance = float(np.mean(left**2))
    if variance == 0.0:
        return None
    kurtosis = float(np.mean((left / np.sqrt(variance)) ** 4))
    best, length = FAR, 0
    for size in BLOCKS:
        blocks = rows // size
        if blocks < FEWEST_BLOCKS:
            break
        sums = left[: blocks * size].reshape(blocks, size).sum(axis=1)
        likeness = float(np.mean(sums**2)) / (size * variance)
        # Of independent rows: the variance of a block's square, their own kurtosis among it.
        error = np.sqrt((2.0 + max(kurtosis - 3.0, 0.0) / size) / blocks)
        if (likeness - 1.0) / error > best:
            best, length = (likeness - 1.0) / error, size
    if not length:
        return None
    return Units(np.arange(rows, dtype=np.int64) // length, Source.NEIGHBOURS)


def about_declared(column: str, units: Units | None, examples: Examples) -> Reason | Note:
    """What is to be said of declared groups."""
    if units is None:
        there = clipped(", ".join(sorted(examples.slices)) or "none", 100)
        return failure(
            Code.GROUPS_MISSING,
            f"The examples have no column {column!r}, which groups names (columns of categories: "
            f"{there}): without it nobody knows which rows go together.",
        )
    rows = len(units.of_row)
    if units.count < FEWEST_UNITS:
        return Reason(
            Code.GROUPS_TOO_FEW,
            Outcome.INCONCLUSIVE,
            f"All {rows:,} validation examples belong to one group by {column!r}: two or more are "
            "needed.",
        )
    few = " So few make for wide bounds." if units.count < FEW_UNITS else ""
    sentence = (
        f"The {rows:,} validation examples count as {units.count:,}, the groups of {column!r}.{few}"
    )
    return Note(Code.GROUPS_DECLARED, sentence, {"examples": rows, "effective": units.count})


def about_repeated(units: Units) -> Note:
    """What is to be said of rows that repeat others."""
    rows = len(units.of_row)
    by_input = units.source is Source.INPUTS
    why = "their inputs are the same" if by_input else "all models say the same of them"
    sentence = (
        f"{rows - units.count:,} of {rows:,} validation examples repeat others: {why}. The "
        f"{rows:,} count as {units.count:,}."
    )
    code = Code.GROUPS_INPUTS if by_input else Code.GROUPS_REPEATED
    return Note(code, sentence, {"examples": rows, "effective": units.count})


def about_neighbours(metric: str, units: Units) -> Note:
    """What is to be said of neighbours that resemble each other."""
    rows = len(units.of_row)
    sentence = (
        f"{metric}: neighbouring validation examples are right or wrong together, so the {rows:,} "
        f"count as {units.count:,}. Name the column that they share as groups in [data]."
    )
    numbers = {"metric": metric, "examples": rows, "effective": units.count}
    return Note(Code.GROUPS_NEIGHBOURS, sentence, numbers)


def _signature(examples: Examples) -> IntArray | None:
    """(rows,) a number of what a model says of each row; None where that is too coarse."""
    if examples.predictions is not None and examples.targets is not None:
        said = [examples.predictions, examples.targets]
    else:
        said = [examples.losses, *examples.scores.T[:MOST_SCORES]]
        certain = examples.losses <= TINY
        if certain.mean() > MOST_IN_ONE / 2.0:
            return None
    if all(_is_rounded(column) for column in said[1:] or said):
        return None
    if len(np.unique(np.round(np.log(np.abs(said[0]) + TINY) * DIGITS))) < FEWEST_LEVELS:
        return None
    # Odd factors, so that products of whole numbers do not meet by chance.
    mixed = np.zeros(len(examples.labels), dtype=np.uint64)
    for place, column in enumerate(said):
        parts = np.round(np.log(np.abs(column) + TINY) * DIGITS).astype(np.int64)
        parts = parts * 2 + (column < 0.0)
        with np.errstate(over="ignore"):
            mixed = (mixed ^ parts.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15 + 2 * place)
            mixed ^= mixed >> np.uint64(29)
    found: IntArray = mixed.view(np.int64)
    return found


def _is_rounded(column: FloatArray) -> bool:
    """Whether most of the values are whole multiples of 1 / ROUND."""
    sample = column[:: max(len(column) // 1000, 1)] * ROUND
    return bool(
        np.mean(np.abs(sample - np.round(sample)) < 1e-6 * np.maximum(1.0, abs(sample))) > 0.5
    )


def _numbered(values: npt.NDArray[np.generic]) -> IntArray:
    numbers: IntArray = np.unique(values, return_inverse=True)[1].astype(np.int64).reshape(-1)
    return numbers
