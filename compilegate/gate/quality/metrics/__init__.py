"""The metrics, as columns: one value per validation example whose mean is the metric.

Means of per-example values (accuracy, log loss, squared error) are columns by definition. The
others are linearised: each example's value is the metric plus the example's influence on it (the
infinitesimal jackknife). The mean of the column is still exactly the metric, and the spread of the
column is the metric's sampling variance to first order. A user's own function has no influence
function at hand; a delete-a-group jackknife stands in for it (`user_function`).

The linearisation was preferred to a bootstrap over seeds and examples because it lets all metrics
share one interval (`difference_interval`), has no random numbers, and a bootstrap over two or three
seeds understates the variance between seeds by a factor (k - 1) / k. It is weakest for a class with
very few validation examples; the interval then has few degrees of freedom and widens.

    classification   accuracy, balanced accuracy, macro and micro F1
    ranking          AUROC
    losses           log loss, loss, perplexity, calibration error, mean squared and absolute error
    user_function    a function by its dotted name

References: Efron, "Nonparametric estimates of standard error" (Biometrika 1981); DeLong et al.,
"Comparing the areas under correlated ROC curves" (Biometrics 1988); Takahashi et al., "Confidence
interval for micro- and macro-averaged F1" (Applied Intelligence 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from compilegate.evidence import Examples, FloatArray, IntArray
from compilegate.gate.quality.metrics import classification, losses, ranking
from compilegate.gate.quality.metrics.errors import MetricFunctionError, MetricUndefinedError
from compilegate.gate.quality.metrics.user_function import load_function, pseudo_values

__all__ = [
    "MetricFunctionError",
    "MetricUndefinedError",
    "MetricValues",
    "bias_bound",
    "certain_loss",
    "counts_flips",
    "load_function",
    "metric_value",
    "one_flip",
    "per_example",
]


MOST_VALUE = 1e100
"""The largest value in a column: its squares must be finite, too."""


def per_example(measure: str, examples: Examples, units: IntArray | None = None) -> FloatArray:
    """Values whose mean is the metric: one per example, or per group of them.

    `units` are numbers of what rows go together in: no group then holds a part of one.

    `measure` is a built-in metric's name or the dotted name of a user's function. `examples` must
    hold at least one row, labels within the classes and finite numbers; classes that no validation
    example has do not count towards class-averaged metrics.

    Raises MetricUndefinedError when these examples do not determine the metric.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        column = (
            pseudo_values(measure, examples, units)
            if "." in measure
            else _COLUMNS[measure](examples)
        )
    if not -MOST_VALUE <= column.min() <= column.max() <= MOST_VALUE:  # False for NaN too
        raise MetricUndefinedError(
            f"{measure} of these examples is not a finite number up to {MOST_VALUE:.0e}"
        )
    return column


def metric_value(measure: str, examples: Examples) -> float:
    """The metric over all examples, in its own units (fractions, nats, squares of the target's)."""
    return float(per_example(measure, examples).mean())


class MetricValues:
    """Metrics by replicate, computed once: several parts of the gate ask for the same."""

    def __init__(self) -> None:
        # By identity, since arrays have no hash; the examples are kept so that it stays theirs.
        self._known: dict[tuple[str, int], tuple[Examples, float]] = {}
        self._columns: dict[tuple[str, int], FloatArray] = {}

    def of(self, measure: str, examples: Examples) -> float:
        """As `metric_value`."""
        key = (measure, id(examples))
        if key not in self._known:
            self._known[key] = (examples, float(self.column(measure, examples).mean()))
        return self._known[key][1]

    def column(self, measure: str, examples: Examples, units: IntArray | None = None) -> FloatArray:
        """As `per_example`; not to be changed."""
        key = (measure, id(examples))
        if units is not None and "." in measure:
            return per_example(measure, examples, units)
        if key in self._columns:
            return self._columns[key]
        column = per_example(measure, examples)
        # Kept where it takes a sort, or a hundred calls of a user's function: all columns of all
        # replicates would fill the memory.
        if measure == "auroc" or len(column) < len(examples.labels):
            self._known[key] = (examples, float(column.mean()))
            self._columns[key] = column
        return column


def one_flip(measure: str, examples: Examples, columns: FloatArray) -> float:
    """How far one example's column value moves when its prediction flips.

    `columns` holds what `per_example` gave, of one or more replicates with these labels. For
    class-averaged metrics, the length of such a move in each class at once. This is the resolution
    of the validation set: metrics that agree on every one of 50 examples have shown no difference
    larger than a few flips, not no difference. Zero for what moves continuously. A user's function
    whose values are all 0 or 1 counts flips too; of others nothing is known.
    """
    if "." in measure:
        of_examples = columns.shape[-1] == len(examples.labels)
        return 1.0 if of_examples and bool(np.isin(columns, (0.0, 1.0)).all()) else 0.0
    flip = _FLIPS.get(measure)
    return 0.0 if flip is None else flip(examples.labels)


def counts_flips(measure: str, flip: float) -> bool:
    """Whether a column with these flips moves by them alone, and so has no tail beyond them.

    AUROC moves by ranks: of a rare class, a few examples may fall far and carry all the harm.
    """
    return flip > 0.0 and measure != "auroc"


def certain_loss(measure: str, examples: Examples) -> float:
    """How much worse than it was one example's column value becomes at worst, where that is known
    and no validation set need show it; zero elsewhere.

    Flips are counted instead. An area under a curve has fewer examples than it seems: with 100
    positives, two that are lost cost two points, and one set in seven holds none of them.
    """
    return ranking.lost_example(examples.labels) if measure == "auroc" else 0.0


def bias_bound(measure: str, examples: Examples) -> float:
    """How far from its truth the metric of so few examples lies at most, on average over samples.

    In the metric's units. Zero but for the calibration error: the others' biases are of the order
    of 1 / n, far below their spread.
    """
    return losses.calibration_bias(examples) if measure == "calibration_error" else 0.0


_COLUMNS: Mapping[str, Callable[[Examples], FloatArray]] = {
    "accuracy": classification.accuracy,
    "balanced_accuracy": classification.balanced_accuracy,
    "macro_f1": classification.macro_f1,
    "micro_f1": classification.accuracy,  # with one label an example, the two are the same
    "auroc": ranking.auroc,
    "log_loss": losses.log_loss,
    "loss": losses.loss,
    "perplexity": losses.perplexity,
    "calibration_error": losses.calibration_error,
    "mse": losses.mse,
    "mae": losses.mae,
}
_FLIPS: Mapping[str, Callable[[IntArray], float]] = {
    "accuracy": classification.whole_flip,
    "micro_f1": classification.whole_flip,
    "calibration_error": classification.whole_flip,
    "balanced_accuracy": classification.class_average_flip,
    # A flip in class c moves its F1 by about as much as its recall.
    "macro_f1": classification.class_average_flip,
    "auroc": ranking.rank_flip,
}
