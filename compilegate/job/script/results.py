"""What a script says of its trained model: its examples, batch by batch, and its metrics."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

import numpy as np
import numpy.typing as npt

from compilegate.job.errors import InputError
from compilegate.job.evidence import Examples, FloatArray, IntArray
from compilegate.job.evidence.trained_on import hashed

_NO_IDS = (
    "job.examples() was given no ids; the gate compares models example by example, so each needs "
    "an identifier that is the same in every job: ids=batch['id'], or "
    "ids=job.positions(len(labels)) where the validation data always come in the same order"
)


class ExampleRows:
    """The examples of one evaluation, as the batches come."""

    def __init__(self) -> None:
        self._batches: List[Dict[str, npt.NDArray[Any]]] = []
        self._slices: List[Dict[str, npt.NDArray[Any]]] = []
        self.rows = 0
        self.by_place = False
        """Whether the ids are places in the evaluation, and so never say that it begins again."""

    def add(
        self,
        *,
        ids: Any = None,
        labels: Any = None,
        scores: Any = None,
        logits: Any = None,
        losses: Any = None,
        targets: Any = None,
        predictions: Any = None,
        slices: Optional[Mapping[str, Any]] = None,
        inputs: Any = None,
    ) -> None:
        """Take a batch in. Raises InputError where something is missing or does not fit."""
        if ids is None:
            raise InputError(_NO_IDS)
        given = {
            "labels": labels,
            "scores": scores,
            "logits": logits,
            "losses": losses,
            "targets": targets,
            "predictions": predictions,
        }
        columns = {name: _array(each) for name, each in given.items() if each is not None}
        batch = _completed({"ids": np.asarray(_array(ids)).astype(np.str_).reshape(-1), **columns})
        if inputs is not None:
            batch["inputs"] = hashed_rows(inputs)
        if self._batches and batch.keys() != self._batches[0].keys():
            raise InputError(
                f"job.examples() was given {', '.join(sorted(batch))} where earlier batches had "
                f"{', '.join(sorted(self._batches[0]))}; expected the same for every batch"
            )
        rows = len(batch["ids"])
        categories = {
            name: np.asarray(_array(each)).astype(np.str_).reshape(-1)
            for name, each in (slices or {}).items()
        }
        for name, column in {**batch, **categories}.items():
            if len(column) != rows:
                raise InputError(
                    f"job.examples() was given {rows} ids and {len(column)} {name}; expected one "
                    "for each example"
                )
        self._batches.append(batch)
        self._slices.append(categories)
        self.rows += rows

    def begins_with(self, ids: Any) -> bool:
        """Whether the first of these ids is the first of all: an evaluation begins again."""
        if not self._batches or ids is None or not len(ids):
            return False
        return str(np.asarray(_array(ids[:1])).astype(np.str_)[0]) == str(
            self._batches[0]["ids"][0]
        )

    def examples(self) -> Examples:
        """All of them. Raises InputError where an id is there twice."""
        joined = {
            name: np.concatenate([batch[name] for batch in self._batches])
            for name in self._batches[0]
        }
        categories = {
            name: np.concatenate([each[name] for each in self._slices]) for name in self._slices[0]
        }
        if self.by_place:
            bounds = np.cumsum([len(batch["ids"]) for batch in self._batches])[:-1]
            start = _latest_beginning({**joined, **categories}, [int(each) for each in bounds])
            joined = {name: each[start:] for name, each in joined.items()}
            joined["ids"] = np.arange(self.rows - start).astype(np.str_)
            categories = {name: each[start:] for name, each in categories.items()}
        ids, counts = np.unique(joined["ids"], return_counts=True)
        if len(ids) < len(joined["ids"]):
            raise InputError(
                f"job.examples() was given the id {str(ids[counts > 1][0])!r} more than once; "
                "expected an id of its own for each example"
            )
        return Examples(
            ids=joined["ids"],
            labels=joined["labels"],
            scores=joined["scores"],
            losses=joined["losses"],
            targets=joined.get("targets"),
            predictions=joined.get("predictions"),
            slices=categories,
            inputs=joined.get("inputs"),
        )


_ALIKE = 1e-3
"""How much what a model makes of an example may change when it is evaluated again."""


def _latest_beginning(columns: Mapping[str, npt.NDArray[Any]], starts: List[int]) -> int:
    """The row at which the latest evaluation begins: one of `starts`, or 0.

    A model that has not changed makes the same of the same examples: where all rows so far come
    once more, it is evaluated again. Rows that are all alike show nothing.
    """
    compared = [each for name, each in columns.items() if name != "ids" and each.size]
    first = 0
    for start in starts:
        count = start - first
        again = [(each[first:start], each[start : start + count]) for each in compared]
        if start + count > len(columns["ids"]) or not all(_alike(*each) for each in again):
            continue
        if any(len(np.unique(each, axis=0)) > 1 for each, _ in again):
            first = start
    return first


def _alike(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> bool:
    if before.dtype.kind == "f":
        return bool(np.allclose(before, after, rtol=_ALIKE, atol=_ALIKE, equal_nan=True))
    return bool(np.array_equal(before, after))


def hashed_rows(values: Any) -> IntArray:
    """(rows,) a hash of each text, id or row of an array or a tensor."""
    of_texts = isinstance(values, (list, tuple)) and not hasattr(next(iter(values), ""), "detach")
    return hashed(values if of_texts else _array(values))


def examples_of(**columns: Any) -> Examples:
    """Examples of the columns that `job.examples` takes. Raises InputError."""
    rows = ExampleRows()
    rows.add(**columns)
    return rows.examples()


def example_metrics(examples: Examples) -> Dict[str, float]:
    """What can be said of examples in one number each: accuracy as a fraction, log_loss in nats; of
    numbers the root mean squared error; else the mean loss."""
    if examples.scores.shape[1]:
        right = examples.scores.argmax(axis=1) == examples.labels
        return {"accuracy": float(right.mean()), "log_loss": float(examples.losses.mean())}
    if examples.targets is not None and examples.predictions is not None:
        errors = examples.predictions - examples.targets
        return {"rmse": float(np.sqrt(np.mean(errors**2)))}
    return {"loss": float(examples.losses.mean())}


def _completed(batch: Dict[str, npt.NDArray[Any]]) -> Dict[str, npt.NDArray[Any]]:
    """The batch with all columns of `Examples`, computed from those that it has."""
    rows = len(batch["ids"])
    completed = {"ids": batch["ids"]}
    log_scores: Optional[FloatArray] = None
    if "logits" in batch:
        log_scores = _log_softmax(_table("logits", batch["logits"]))
        completed["scores"] = np.exp(log_scores)
    elif "scores" in batch:
        completed["scores"] = _probabilities(_table("scores", batch["scores"]))
    if "scores" in completed:
        completed["labels"] = _labels(batch, completed["scores"])
    else:
        completed["labels"] = np.zeros(rows, dtype=np.int64)
        completed["scores"] = np.empty((rows, 0))
    for name in ("targets", "predictions"):
        if name in batch:
            completed[name] = batch[name].astype(np.float64).reshape(-1)
    if ("targets" in batch) != ("predictions" in batch):
        raise InputError(
            "job.examples() was given only one of targets and predictions; expected both, for a "
            "model that predicts a number"
        )
    if "losses" in batch:
        completed["losses"] = batch["losses"].astype(np.float64).reshape(-1)
    else:
        completed["losses"] = _losses(completed, log_scores)
    return completed


def _losses(completed: Dict[str, npt.NDArray[Any]], log_scores: Optional[FloatArray]) -> FloatArray:
    if completed["scores"].shape[1]:
        places = np.arange(len(completed["labels"])), completed["labels"]
        if log_scores is not None:
            return -log_scores[places]
        with np.errstate(divide="ignore"):
            return -np.log(completed["scores"][places])
    if "targets" in completed:
        squared: FloatArray = (completed["predictions"] - completed["targets"]) ** 2
        return squared
    raise InputError(
        "job.examples() was given ids alone; expected labels with scores or logits, targets with "
        "predictions, or losses"
    )


def _labels(batch: Dict[str, npt.NDArray[Any]], scores: FloatArray) -> npt.NDArray[np.int64]:
    if "labels" not in batch:
        raise InputError(
            "job.examples() was given scores and no labels; expected the true class of each"
        )
    labels = batch["labels"].astype(np.int64).reshape(-1)
    if labels.size and not 0 <= labels.min() <= labels.max() < scores.shape[1]:
        raise InputError(
            f"job.examples() was given labels from {labels.min()} to {labels.max()} with scores "
            f"for {scores.shape[1]} classes; expected the index of a class, from 0"
        )
    return labels


def _table(name: str, values: npt.NDArray[Any]) -> FloatArray:
    if values.ndim != 2 or values.shape[1] < 2:
        raise InputError(
            f"job.examples() was given {name} of shape {list(values.shape)}; expected a row for "
            "each example and a column for each class, two for a yes or no"
        )
    return values.astype(np.float64)


def _probabilities(scores: FloatArray) -> FloatArray:
    """Rows that sum to one exactly: those of single precision do so nearly."""
    sums = scores.sum(axis=1, keepdims=True)
    if scores.size and (scores.min() < 0 or np.abs(sums - 1).max() > 1e-2):
        raise InputError(
            "job.examples() was given scores that are no probabilities (each row from 0 to 1, with "
            "a sum of 1); say logits=... for what comes before the softmax"
        )
    result: FloatArray = scores / sums
    return result


def _log_softmax(logits: FloatArray) -> FloatArray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    result: FloatArray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def _array(values: Any) -> npt.NDArray[Any]:
    """What a script has, as an array: tensors of any device, lists, arrays."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (
            values.float() if values.is_floating_point() and values.element_size() < 4 else values
        )
    return np.asarray(values)
