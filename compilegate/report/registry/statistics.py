"""`statistics.json`: the released model's metrics in the shape that SageMaker Studio draws. Pure.

The shape is that of Model Monitor's model quality statistics: one group, named for the kind of
prediction, with a value and a standard deviation for each metric. Confusion matrices have the true
class outside and the predicted one inside.

https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-model-quality-metrics.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from compilegate.gate.evidence import Replicate
from compilegate.gate.observations import Observations
from compilegate.job.evidence import Examples, IntArray

BINARY = "binary_classification_metrics"
MULTICLASS = "multiclass_classification_metrics"
REGRESSION = "regression_metrics"
OTHERS = "other_metrics"
"""Where a model neither sorts nor predicts numbers, as a language model; nothing draws these."""
MOST_CLASSES = 50
"""With more, a matrix is no picture."""
UNKNOWN = "NaN"
"""As Model Monitor writes a standard deviation that it cannot tell."""

Values = dict[str, float]


def model_quality(
    observations: Observations,
    scored: Mapping[Replicate, Examples],
    released: Replicate,
) -> dict[str, Any]:
    """The metrics of the released replicate; `scored` has the examples of those that left any.

    The standard deviation is that over the seeds of its arm: how much another training would
    differ. Metrics that the workload declares and Model Monitor does not know are in the same
    group, under their own names.
    """
    declared = {
        replicate.seed: dict(replicate.metrics)
        for replicate in observations.replicates
        if replicate.arm == released[0]
    }
    examples = {
        seed: each
        for (arm, seed), each in scored.items()
        if arm == released[0] and _can_be_counted(each)
    }
    own = examples.get(released[1])
    group = OTHERS if own is None else _group(own)
    by_seed = {
        seed: {**declared.get(seed, {}), **_measured(examples.get(seed), group)}
        for seed in sorted({*declared, *examples})
    }
    metrics: dict[str, Any] = {
        name: {"value": value, "standard_deviation": _spread(name, by_seed)}
        for name, value in sorted(by_seed.get(released[1], {}).items())
        if math.isfinite(value)
    }
    if own is not None and group in (BINARY, MULTICLASS) and own.scores.shape[1] <= MOST_CLASSES:
        metrics = {"confusion_matrix": _told(_confusion(own)), **metrics}
    return {group: metrics}


def _spread(name: str, by_seed: Mapping[int, Values]) -> float | str:
    values = [values[name] for values in by_seed.values() if name in values]
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return UNKNOWN
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.std(values, ddof=1))
    return spread if math.isfinite(spread) else UNKNOWN


def _can_be_counted(examples: Examples) -> bool:
    """Whether rows and classes are what they say: another seed of the arm may be invalid, and must
    not cost the verdict its files."""
    labels, scores = examples.labels, examples.scores
    if len(labels) == 0 or scores.ndim != 2 or len(scores) != len(labels):
        return False
    if examples.targets is not None or scores.shape[1] == 0:
        numbers = (examples.targets, examples.predictions)
        return all(each is None or len(each) == len(labels) for each in numbers)
    return bool(labels.min() >= 0 and labels.max() < scores.shape[1])


def _group(examples: Examples) -> str:
    if examples.targets is not None:
        return REGRESSION
    classes = examples.scores.shape[1]
    return OTHERS if classes < 2 else BINARY if classes == 2 else MULTICLASS


def _measured(examples: Examples | None, group: str) -> Values:
    """What Model Monitor measures, as far as it says anything of a single model."""
    if examples is None or _group(examples) != group:
        return {}
    if group == REGRESSION:
        return _of_numbers(examples)
    if group == OTHERS:
        return {}
    matrix = _confusion(examples)
    return _of_two(matrix) if group == BINARY else _of_many(matrix)


def _of_numbers(examples: Examples) -> Values:
    if examples.targets is None or examples.predictions is None:
        return {}
    truth = np.asarray(examples.targets, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        errors = np.asarray(examples.predictions, dtype=np.float64) - truth
        squared = float(np.mean(errors**2))
        spread = float(np.var(truth))
    values = {"mae": float(np.mean(np.abs(errors))), "mse": squared, "rmse": math.sqrt(squared)}
    return {**values, "r2": 1.0 - squared / spread} if spread > 0 else values


def _confusion(examples: Examples) -> IntArray:
    classes = examples.scores.shape[1]
    predicted = np.argmax(examples.scores, axis=1)
    matrix = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(matrix, (examples.labels, predicted), 1)
    return matrix


def _told(matrix: IntArray) -> dict[str, dict[str, int]]:
    return {
        str(true): {str(predicted): int(count) for predicted, count in enumerate(row)}
        for true, row in enumerate(matrix)
    }


def _of_two(matrix: IntArray) -> Values:
    """Class 1 is the positive one."""
    (negatives, false_positives), (false_negatives, positives) = matrix.astype(float).tolist()
    recall = _ratio(positives, positives + false_negatives)
    precision = _ratio(positives, positives + false_positives)
    return {
        "accuracy": _ratio(positives + negatives, float(matrix.sum())),
        "accuracy_best_constant_classifier": _majority(matrix),
        "recall": recall,
        "precision": precision,
        "true_positive_rate": recall,
        "true_negative_rate": _ratio(negatives, negatives + false_positives),
        "false_positive_rate": _ratio(false_positives, negatives + false_positives),
        "false_negative_rate": _ratio(false_negatives, positives + false_negatives),
        **{name: _f_score(precision, recall, beta) for name, beta in F_SCORES.items()},
    }


def _of_many(matrix: IntArray) -> Values:
    """Averages over the classes, weighted by how many examples each has."""
    right, of_class = np.diag(matrix).astype(float), matrix.sum(axis=1).astype(float)
    said = matrix.sum(axis=0).astype(float)
    weights = of_class / of_class.sum()
    recall = np.divide(right, of_class, out=np.zeros_like(right), where=of_class > 0)
    precision = np.divide(right, said, out=np.zeros_like(right), where=said > 0)
    return {
        "accuracy": float(right.sum() / of_class.sum()),
        "accuracy_best_constant_classifier": _majority(matrix),
        "weighted_recall": float(weights @ recall),
        "weighted_precision": float(weights @ precision),
        **{
            f"weighted_{name}": float(
                sum(
                    weight * _f_score(each_precision, each_recall, beta)
                    for weight, each_precision, each_recall in zip(
                        weights, precision, recall, strict=True
                    )
                )
            )
            for name, beta in F_SCORES.items()
        },
    }


F_SCORES = {"f0_5": 0.5, "f1": 1.0, "f2": 2.0}


def _f_score(precision: float, recall: float, beta: float) -> float:
    below = beta**2 * precision + recall
    return _ratio((1 + beta**2) * precision * recall, below)


def _ratio(part: float, whole: float) -> float:
    """Zero of nothing, as Model Monitor's metrics have it."""
    return part / whole if whole > 0 else 0.0


def _majority(matrix: IntArray) -> float:
    """What calling everything by the most frequent class would reach."""
    return float(matrix.sum(axis=1).max() / matrix.sum())
