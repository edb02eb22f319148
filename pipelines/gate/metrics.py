"""The guarded metrics, as columns: one value per validation example whose mean is the metric.

Accuracy and log loss are means of per-example values by definition. Macro F1 and balanced
accuracy are not, so they are linearised: each example's value is the metric plus the example's
influence on it (the infinitesimal jackknife). The mean of the column is still exactly the metric,
and the spread of the column is the metric's sampling variance to first order.

The linearisation was preferred to a bootstrap over seeds and examples because it lets all four
metrics share one interval (see `crossed`), has no random numbers, and a bootstrap over two or
three seeds understates the variance between seeds by a factor (k - 1) / k. It is weakest for a
class with very few validation examples; `crossed` then finds few degrees of freedom and widens.

References: Efron, "Nonparametric estimates of standard error" (Biometrika 1981); Takahashi et al.,
"Confidence interval for micro- and macro-averaged F1" (Applied Intelligence 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from pipelines.gate.config import MetricName
from training.evidence import Examples, FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]


def per_example(metric: MetricName, examples: Examples) -> FloatArray:
    """(examples,) values whose mean is the metric.

    `examples` must hold at least one row, labels within the classes and finite numbers; classes
    that no validation example has do not count towards the two class-averaged metrics.
    """
    return _COLUMNS[metric](examples)


def metric_value(metric: MetricName, examples: Examples) -> float:
    """The metric over all examples, as a fraction (log loss in nats)."""
    return float(per_example(metric, examples).mean())


def one_flip(metric: MetricName, labels: IntArray) -> float:
    """How far one example's column value moves when its prediction flips (root mean square).

    This is the resolution of the validation set: metrics that agree on every one of 50 examples
    have shown no difference larger than a few flips, not no difference. Zero for log loss, which
    moves continuously.
    """
    if metric == "log_loss":
        return 0.0
    if metric == "accuracy":
        return 1.0
    counts = np.unique(labels, return_counts=True)[1].astype(np.float64)
    # A flip in class c moves its recall by 1 / counts[c]; F1 moves by about as much.
    return float(np.sqrt(len(labels) * np.sum(1.0 / counts)) / len(counts))


def _accuracy(examples: Examples) -> FloatArray:
    correct: BoolArray = examples.scores.argmax(axis=1) == examples.labels
    return correct.astype(np.float64)


def _log_loss(examples: Examples) -> FloatArray:
    return examples.losses


def _balanced_accuracy(examples: Examples) -> FloatArray:
    correct = _accuracy(examples)
    classes, codes, counts = np.unique(examples.labels, return_inverse=True, return_counts=True)
    recalls = np.bincount(codes, weights=correct) / counts
    weights = len(correct) / (counts[codes] * len(classes))
    column: FloatArray = recalls.mean() + (correct - recalls[codes]) * weights
    return column


def _macro_f1(examples: Examples) -> FloatArray:
    predictions = examples.scores.argmax(axis=1)
    classes = np.unique(examples.labels)
    column = np.zeros(len(predictions))
    for index in classes:
        labelled: BoolArray = examples.labels == index
        predicted: BoolArray = predictions == index
        size = int(labelled.sum()) + int(predicted.sum())
        hits = labelled & predicted
        f1 = 2.0 * hits.sum() / size
        # F1 is a ratio of means, 2 E[hit] / E[labelled + predicted]; this is its derivative.
        influence = (2.0 * hits - f1 * (labelled.astype(float) + predicted)) * len(column) / size
        column += (f1 + influence) / len(classes)
    return column


_COLUMNS: Mapping[MetricName, Callable[[Examples], FloatArray]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "macro_f1": _macro_f1,
    "log_loss": _log_loss,
}
