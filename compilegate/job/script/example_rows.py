"""What a script says of its trained model: its examples, batch by batch, and their metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping

import numpy as np
import numpy.typing as npt

from compilegate.job.errors import InputError
from compilegate.job.evidence import Examples, FloatArray, IntArray
from compilegate.job.evidence.writing import as_array, hashed

if TYPE_CHECKING:
    pass


Columns = Dict[str, npt.NDArray[Any]]

_COLUMNS = {"labels", "scores", "logits", "losses", "targets", "predictions"}
_ALIKE = 1e-3  # how much what a model makes of an example may change when it is evaluated again


class ExampleRows:
    """The examples of one evaluation, as the batches come."""

    def __init__(self) -> None:
        self._batches: list[Columns] = []
        self._slices: list[Columns] = []
        self.rows = 0
        self.by_place = False  # ids that are places never say that an evaluation begins again

    def add(
        self,
        *,
        ids: Any = None,
        slices: Mapping[str, Any] | None = None,
        inputs: Any = None,
        **columns: Any,
    ) -> None:
        """Take in a batch. Raises InputError where something is missing or does not fit."""
        if ids is None:
            raise _wrong(
                "no ids",
                "an identifier of each example that is the same in every job, ids=batch['id'], or "
                "ids=job.positions(len(labels)) where they always come in the same order",
            )
        unknown = columns.keys() - _COLUMNS
        if unknown:
            raise TypeError(f"job.examples() was given {', '.join(sorted(unknown))}")
        given = {name: as_array(each) for name, each in columns.items() if each is not None}
        texts = _texts(ids)
        rows = len(texts)
        batch = {"ids": texts, **_completed(given, rows)}
        if inputs is not None:
            batch["inputs"] = hashed(inputs)
        if self._batches and batch.keys() != self._batches[0].keys():
            before = ", ".join(sorted(self._batches[0]))
            raise _wrong(", ".join(sorted(batch)), f"what earlier batches had: {before}")
        categories = {name: _texts(each) for name, each in (slices or {}).items()}
        for name, column in {**batch, **categories}.items():
            if len(column) != rows:
                raise _wrong(f"{rows} ids and {len(column)} {name}", "one for each example")
        self._batches.append(batch)
        self._slices.append(categories)
        self.rows += rows

    def begins_with(self, ids: Any) -> bool:
        """Whether the first of these ids is the first of all: an evaluation begins again."""
        if not self._batches or ids is None or not len(ids):
            return False
        return bool(_texts(ids[:1])[0] == self._batches[0]["ids"][0])

    def examples(self) -> Examples:
        """All of them. Raises InputError where an id is there twice."""
        joined, categories = _joined(self._batches), _joined(self._slices)
        if self.by_place:
            bounds = np.cumsum([len(batch["ids"]) for batch in self._batches])[:-1].tolist()
            start = _latest_beginning({**joined, **categories}, bounds)
            joined = {name: each[start:] for name, each in joined.items()}
            categories = {name: each[start:] for name, each in categories.items()}
            joined["ids"] = np.arange(self.rows - start).astype(np.str_)
        ids, counts = np.unique(joined["ids"], return_counts=True)
        if len(ids) < len(joined["ids"]):
            again = str(ids[counts > 1][0])
            raise _wrong(f"the id {again!r} more than once", "an id of its own for each example")
        return Examples(**joined, slices=categories)


def _wrong(given: str, expected: str) -> InputError:
    return InputError(f"job.examples() was given {given}; expected {expected}")


def _joined(batches: list[Columns]) -> Columns:
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _latest_beginning(columns: Columns, starts: list[int]) -> int:
    """The row at which the latest evaluation begins: one of `starts`, or 0. An unchanged model
    makes the same of the same examples, so rows that come once more are an evaluation again; rows
    that are all alike show nothing."""
    compared = [each for name, each in columns.items() if name != "ids" and each.size]
    first = 0
    for start in starts:
        end = 2 * start - first
        again = [(each[first:start], each[start:end]) for each in compared]
        if end > len(columns["ids"]) or not all(_alike(*each) for each in again):
            continue
        if any(len(np.unique(each, axis=0)) > 1 for each, _ in again):
            first = start
    return first


def _alike(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> bool:
    if before.dtype.kind == "f":
        return bool(np.allclose(before, after, rtol=_ALIKE, atol=_ALIKE, equal_nan=True))
    return bool(np.array_equal(before, after))


def examples_of(**columns: Any) -> Examples:
    """Examples of the columns that `job.examples` takes. Raises InputError."""
    rows = ExampleRows()
    rows.add(**columns)
    return rows.examples()


def example_metrics(examples: Examples) -> dict[str, float]:
    """One number for each of the model's kind: accuracy and log_loss (nats), rmse, or the mean
    loss."""
    if examples.scores.shape[1]:
        right = examples.scores.argmax(axis=1) == examples.labels
        return {"accuracy": float(right.mean()), "log_loss": float(examples.losses.mean())}
    if examples.targets is not None and examples.predictions is not None:
        errors = examples.predictions - examples.targets
        return {"rmse": float(np.sqrt(np.mean(errors**2)))}
    return {"loss": float(examples.losses.mean())}


def _completed(given: Columns, rows: int) -> Columns:
    """The columns of `Examples` but the ids, computed from those that there are."""
    found: Columns = {"labels": np.zeros(rows, dtype=np.int64), "scores": np.empty((rows, 0))}
    if ("targets" in given) != ("predictions" in given):
        raise _wrong("only one of targets and predictions", "both, for a model of numbers")
    for name in ("targets", "predictions", "losses"):
        if name in given:
            found[name] = given[name].astype(np.float64).reshape(-1)
    if "logits" in given or "scores" in given:
        found["scores"], log_scores = _scores(given)
        found["labels"] = _labels(given, log_scores)
        count = min(map(len, (log_scores, found["labels"])))  # where they differ, `add` says so
        own_losses = -log_scores[np.arange(count), found["labels"][:count]]
    elif "targets" in given:
        own_losses = (found["predictions"] - found["targets"]) ** 2
    elif "losses" in found:
        return found
    else:
        needed = "labels with scores or logits, targets with predictions, or losses"
        raise _wrong("ids alone", needed)
    return {"losses": own_losses, **found}


def _scores(given: Columns) -> tuple[FloatArray, FloatArray]:
    """(rows, classes) probabilities and their logarithms; rows sum to one in double precision."""
    name = "logits" if "logits" in given else "scores"
    table = given[name].astype(np.float64)
    if table.ndim != 2 or table.shape[1] < 2:
        needed = "a row for each example and a column for each class, two for a yes or no"
        raise _wrong(f"{name} of shape {list(table.shape)}", needed)
    if name == "scores":
        sums = table.sum(axis=1, keepdims=True)
        if table.size and (table.min() < 0 or np.abs(sums - 1).max() > 1e-2):
            raise _wrong(
                "scores that are no probabilities",
                "rows from 0 to 1 that sum to 1; use logits=... for what comes before the softmax",
            )
        with np.errstate(divide="ignore"):
            return table / sums, np.log(table / sums)
    shifted = table - table.max(axis=1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.exp(logarithms), logarithms


def _labels(given: Columns, scores: FloatArray) -> IntArray:
    if "labels" not in given:
        raise _wrong("scores and no labels", "the true class of each")
    labels: IntArray = given["labels"].astype(np.int64).reshape(-1)
    if labels.size and not 0 <= labels.min() <= labels.max() < scores.shape[1]:
        found = f"labels from {labels.min()} to {labels.max()} with scores for {scores.shape[1]}"
        raise _wrong(f"{found} classes", "the index of a class, from 0")
    return labels


def _texts(values: Any) -> npt.NDArray[np.str_]:
    return as_array(values).astype(np.str_).reshape(-1)
