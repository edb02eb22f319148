"""The metrics, as columns: one value per validation example whose mean is the metric.

Means of per-example values (accuracy, log loss, squared error) are columns by definition. The
others are linearised: each example's value is the metric plus the example's influence on it (the
infinitesimal jackknife; Efron, Biometrika 1981). The column's mean is still exactly the metric, and
its spread is the metric's sampling variance to first order, without random numbers. So all metrics
share one interval (`statistics`).

A user's own function takes `compilegate.job.Examples` and returns one value per example, or one
number. That is taken apart by a delete-a-group jackknife (Kott, Journal of Official Statistics
2001), which holds for functions that are smooth in the data; a median is not.

References: DeLong et al., "Comparing the areas under correlated ROC curves" (Biometrics 1988);
Takahashi et al., "Confidence interval for micro- and macro-averaged F1" (Applied Intelligence
2022); Guo et al., "On calibration of modern neural networks" (ICML 2017).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from compilegate.errors import CompilegateError
from compilegate.gate.evidence import take_rows
from compilegate.gate.findings import clipped
from compilegate.gate.settings import MetricGuard
from compilegate.job.evidence import EvidenceRecord, Examples, FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]
MOST_VALUE = 1e100
"""The largest value in a column: its squares must be finite, too."""
CALIBRATION_BINS = 15
SMALLEST_EXACT_SCORE = 1e-6
"""Scores below this may have lost their digits; the recorded loss is then used instead."""
LOST_DIGITS = 2e-7
"""Largest rounding error of a score that was computed as one minus another in single precision."""
JACKKNIFE_GROUPS = 100
MetricFunction = Callable[[Examples], "float | FloatArray"]


class MetricUndefinedError(CompilegateError):
    """These examples do not determine the metric: one sentence that says which and why."""


class MetricAbsentError(MetricUndefinedError):
    """The job left neither a value of the metric nor the examples to compute it from."""


class MetricFunctionError(CompilegateError):
    """A user's metric function cannot be loaded: one sentence with its dotted name."""


@dataclass(frozen=True)
class Scored:
    """The examples of one replicate, with what several metrics need of them computed once."""

    examples: Examples

    @cached_property
    def predicted(self) -> IntArray:
        """(examples,) index of the highest score. Raises MetricUndefinedError without scores."""
        scores = self.examples.scores
        if scores.shape[1] < 2:
            raise MetricUndefinedError("these examples have no scores of classes")
        if scores.shape[1] == 2:  # as argmax has it, in a tenth of the time
            return (scores[:, 1] > scores[:, 0]).astype(np.int64)
        return np.asarray(scores.argmax(axis=1))

    @cached_property
    def correct(self) -> FloatArray:
        """(examples,) 1 where the class with the highest score is the label."""
        return np.asarray(self.predicted == self.examples.labels, dtype=np.float64)

    @cached_property
    def nats(self) -> FloatArray:
        """(examples,) by the score of each label. Where that is too small to be exact, what the job
        recorded, if it is no less than such a score allows; without scores, what it recorded."""
        examples = self.examples
        if not examples.scores.shape[1]:
            return examples.losses
        likelihood = examples.scores[np.arange(len(examples.labels)), examples.labels]
        exact = likelihood >= SMALLEST_EXACT_SCORE
        if exact.all():
            return -np.log(likelihood)
        implied = -np.log(np.where(exact, likelihood, likelihood + LOST_DIGITS))
        return np.where(exact, implied, np.maximum(examples.losses, implied))

    @cached_property
    def confidence(self) -> FloatArray:
        """(examples,) the score of the predicted class."""
        return self.examples.scores[np.arange(len(self.predicted)), self.predicted]

    @cached_property
    def errors(self) -> FloatArray:
        """(examples,) prediction minus target. Raises MetricUndefinedError without them."""
        if self.examples.targets is None or self.examples.predictions is None:
            raise MetricUndefinedError("these examples have no targets and predictions of numbers")
        return self.examples.predictions - self.examples.targets


def column_of(measure: str, scored: Scored, units: IntArray | None = None) -> FloatArray:
    """(examples,) values whose mean is the metric; of a function with one number, per group.

    `measure` is a built-in metric's name or the dotted name of a user's function. `units` number
    what rows go together in: no group of the jackknife then holds a part of one. Raises
    MetricUndefinedError when these examples do not determine the metric.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if "." in measure:
            column = _of_function(measure, scored.examples, units)
        else:
            column = _COLUMNS[measure](scored)
    if not -MOST_VALUE <= column.min() <= column.max() <= MOST_VALUE:  # False for NaN too
        raise MetricUndefinedError(
            f"{measure} of these examples is not a finite number up to {MOST_VALUE:.0e}"
        )
    return column


def per_example(measure: str, examples: Examples) -> FloatArray:
    """`column_of` for a single metric of these examples."""
    return column_of(measure, Scored(examples))


def metric_value(measure: str, examples: Examples) -> float:
    """The metric over all examples, in its own units (fractions, nats, squares of the target's)."""
    return float(per_example(measure, examples).mean())


class MetricValues:
    """The metrics of replicates, computed once: the verdict and what the page draws share them."""

    def __init__(self) -> None:
        # By identity, since arrays have no hash; the examples are kept so that it stays theirs.
        self._known: dict[tuple[str, int], tuple[Examples, float]] = {}

    def of(self, measure: str, examples: Examples) -> float:
        """The metric over all examples, computed once."""
        key = (measure, id(examples))
        if key not in self._known:
            self._known[key] = (examples, metric_value(measure, examples))
        return self._known[key][1]

    def of_record(self, metric: str, guard: MetricGuard, record: EvidenceRecord) -> float:
        """The metric of one job's model, reported or computed. Raises MetricUndefinedError."""
        if guard.reported:
            if metric not in record.evidence.metrics:
                raise MetricAbsentError("a job did not report it")
            return float(record.evidence.metrics[metric])
        if record.examples is None:
            raise MetricAbsentError("a job wrote no examples")
        return self.of(guard.measure(metric), record.examples)

    def remember(self, measure: str, examples: Examples, value: float) -> None:
        """Keep what was computed elsewhere."""
        self._known[measure, id(examples)] = (examples, value)


def one_flip(measure: str, labels: IntArray, column: FloatArray) -> float:
    """How far one example's value moves when its prediction flips; zero for what is continuous.

    This is the resolution of the validation set: metrics that agree on every one of 50 examples
    have shown no difference larger than a few flips, not no difference. For class-averaged metrics,
    the length of such a move in each class at once. A user's function whose values are all 0 or 1
    counts flips too; of others nothing is known.
    """
    if "." in measure:
        of_examples = len(column) == len(labels)
        return 1.0 if of_examples and bool(np.isin(column, (0.0, 1.0)).all()) else 0.0
    return _FLIPS[measure](labels) if measure in _FLIPS else 0.0


def bias_bound(measure: str, scored: Scored) -> float:
    """How far above its truth the metric of so few examples lies at most, on average over samples.

    Zero but for the calibration error. A bin without any gap shows one all the same, sqrt(2 / pi)
    of its gap's standard error (Roelofs et al., AISTATS 2022). An estimate of that bias is itself
    biased, and large where no example of a bin is wrong; the bound needs none.
    """
    if measure != "calibration_error":
        return 0.0
    bins, gaps = _bins_and_gaps(scored)
    counts = np.bincount(bins, minlength=CALIBRATION_BINS)
    # A gap's variance is that of a correctness of mean `confidence`, were the bin calibrated.
    variance = scored.confidence * (1.0 - scored.confidence)
    calibrated = np.bincount(bins, weights=variance, minlength=CALIBRATION_BINS)
    found = np.bincount(bins, weights=gaps**2, minlength=CALIBRATION_BINS)
    return float(np.sqrt(2.0 / np.pi * np.maximum(calibrated, found)).sum() / counts.sum())


def best_constant(measure: str, examples: Examples) -> Examples | None:
    """What a model would score that gives the one answer that is best for all examples; None where
    that is not known, or any answer is right since there is one class."""
    of_numbers = measure in ("mse", "mae")
    if measure not in _HAVE_A_CONSTANT or of_numbers != (examples.targets is not None):
        return None
    if examples.targets is not None:
        answer = np.median(examples.targets) if measure == "mae" else examples.targets.mean()
        return replace(examples, predictions=np.full(len(examples.targets), float(answer)))
    classes = examples.scores.shape[1]
    counts = np.bincount(examples.labels, minlength=classes)
    if classes < 2 or np.count_nonzero(counts) < 2:
        return None
    shares = counts / counts.sum()
    scores = np.tile(shares, (len(examples.labels), 1))
    return replace(examples, scores=scores, losses=-np.log(shares[examples.labels]))


def constant_value(measure: str, examples: Examples) -> float | None:
    """The metric of the best constant prediction; None where that is not known."""
    constant = best_constant(measure, examples)
    return None if constant is None else float(per_example(measure, constant).mean())


def _balanced_accuracy(scored: Scored) -> FloatArray:
    labels = scored.examples.labels
    counts = np.bincount(labels).astype(np.float64)
    classes = int(np.count_nonzero(counts))
    recalls = np.bincount(labels, weights=scored.correct) / np.maximum(counts, 1.0)
    weights = (len(labels) / classes) / np.maximum(counts, 1.0)
    influence = (scored.correct - recalls[labels]) * weights[labels]
    return np.asarray(influence + recalls.sum() / classes)


def _macro_f1(scored: Scored) -> FloatArray:
    labels, predicted = scored.examples.labels, scored.predicted
    count, classes = scored.examples.scores.shape
    labelled = np.bincount(labels, minlength=classes)
    sizes = labelled + np.bincount(predicted, minlength=classes)
    scale = np.where(labelled > 0, count / np.maximum(sizes, 1), 0.0)
    f1 = 2.0 * np.bincount(labels, weights=scored.correct, minlength=classes) * scale / count
    # F1 is a ratio of means, 2 E[hit] / E[labelled + predicted], and this is its derivative: an
    # example moves that of its label, and that of the class predicted for it.
    missed = f1 * scale
    influence = 2.0 * scale[labels] * scored.correct - missed[labels] - missed[predicted]
    return np.asarray((f1.sum() + influence) / np.count_nonzero(labelled))


def _auroc(scored: Scored) -> FloatArray:
    """Area under the ROC curve, linearised with DeLong's structural components: of the second class
    when there are two; else the mean of each class that occurs against the rest."""
    examples = scored.examples
    classes = examples.scores.shape[1]
    occurring = np.flatnonzero(np.bincount(examples.labels, minlength=classes))
    if classes < 2 or len(occurring) < 2:
        raise MetricUndefinedError("auroc needs scores, and examples of two or more classes")
    of_interest = [1] if classes == 2 else occurring.tolist()
    column = np.zeros(len(examples.labels))
    for index in of_interest:
        column += _one_against_rest(examples.scores[:, index], examples.labels == index)
    return column / len(of_interest)


def _one_against_rest(scores: FloatArray, positive: BoolArray) -> FloatArray:
    count, positives = len(scores), int(positive.sum())
    negatives = count - positives
    order = np.argsort(scores)
    ranked, is_positive = scores[order], positive[order]
    # Ties share the middle of their ranks, so all goes by blocks of equal scores.
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    ends = np.append(starts[1:], count)
    before = np.concatenate([[0], np.cumsum(is_positive)])
    first, last = before[starts], before[ends]
    positives_below = (first + last) / 2.0
    negatives_below = (starts + ends) / 2.0 - positives_below
    area = float(negatives_below @ (last - first)) / (positives * negatives)
    if_positive = area + (negatives_below / negatives - area) * (count / positives)
    if_negative = area + (1.0 - positives_below / positives - area) * (count / negatives)
    column, ties = np.empty(count), ends - starts
    column[order] = np.where(
        is_positive, np.repeat(if_positive, ties), np.repeat(if_negative, ties)
    )
    return column


def _perplexity(scored: Scored) -> FloatArray:
    mean = float(scored.nats.mean())
    return np.asarray(np.exp(mean) * (1.0 + scored.nats - mean))


def _calibration_error(scored: Scored) -> FloatArray:
    """Expected calibration error of the predicted class, 15 bins of equal width: the mean of
    (correct - confidence) with the sign of its bin's gap, which is taken as known."""
    bins, gaps = _bins_and_gaps(scored)
    signs = np.sign(np.bincount(bins, weights=gaps, minlength=CALIBRATION_BINS))
    return np.asarray(signs[bins] * gaps)


def _bins_and_gaps(scored: Scored) -> tuple[IntArray, FloatArray]:
    """(examples,) the bin of each, and by how much it was right more than its confidence says."""
    gaps = scored.correct - scored.confidence
    bins = (scored.confidence * CALIBRATION_BINS).astype(np.int64)
    return np.minimum(bins, CALIBRATION_BINS - 1), gaps


_COLUMNS: Mapping[str, Callable[[Scored], FloatArray]] = {
    "accuracy": lambda scored: scored.correct,
    "balanced_accuracy": _balanced_accuracy,
    "macro_f1": _macro_f1,
    "micro_f1": lambda scored: scored.correct,  # with one label an example, the two are the same
    "auroc": _auroc,
    "log_loss": lambda scored: scored.nats,
    "loss": lambda scored: scored.examples.losses,
    "perplexity": _perplexity,
    "calibration_error": _calibration_error,
    "mse": lambda scored: scored.errors**2,
    "mae": lambda scored: abs(scored.errors),
}
_HAVE_A_CONSTANT = frozenset(_COLUMNS) - {"loss", "calibration_error"}
"""Metrics of which the best constant answer is known. The calibration error of one is zero."""


def _class_average_flip(labels: IntArray) -> float:
    """One flip in each class: in class c it moves the recall by 1 / counts[c]. The flips' root mean
    square over examples hardly shows a class of 20 examples."""
    counts = np.bincount(labels).astype(np.float64)
    counts = counts[counts > 0]
    return float(len(labels) * np.sqrt(np.sum(1.0 / counts**2)) / len(counts))


def _rank_flip(labels: IntArray) -> float:
    """In each class one example falls to where a typical one of the others lies: its share of pairs
    that are ranked right falls to one half. Two classes have one area, which both move."""
    classes = np.count_nonzero(np.bincount(labels))
    return _class_average_flip(labels) * (1.0 if classes == 2 else 0.5)


_FLIPS: Mapping[str, Callable[[IntArray], float]] = {
    **dict.fromkeys(("accuracy", "micro_f1", "calibration_error"), lambda labels: 1.0),
    # A flip in class c moves its F1 by about as much as its recall.
    **dict.fromkeys(("balanced_accuracy", "macro_f1"), _class_average_flip),
    "auroc": _rank_flip,
}


@cache
def load_function(dotted_name: str) -> MetricFunction:
    """Import `package.module.function`. Raises MetricFunctionError when there is none."""
    module_name, _, attribute = dotted_name.rpartition(".")
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:  # a user's module may raise anything while it is imported
        raise MetricFunctionError(
            f"metric function {dotted_name} cannot be imported: "
            f"{type(error).__name__}: {clipped(str(error))}"
        ) from error
    if not callable(function):
        raise MetricFunctionError(f"{dotted_name} is {type(function).__name__}, not a function")
    return function


def _of_function(dotted_name: str, examples: Examples, units: IntArray | None) -> FloatArray:
    """(examples,) values, or (groups,) pseudo-values whose mean is the function's one number."""
    whole = _called(dotted_name, examples)
    if whole.ndim == 1:
        return whole
    count = len(examples.labels) if units is None else int(units.max()) + 1
    groups = min(JACKKNIFE_GROUPS, count)
    # Rows may lie in the order of their classes. The same evidence gives the same verdict.
    dealt = np.random.default_rng(0).permutation(count) % groups
    if units is not None:
        dealt = dealt[units]
    left_out = [
        _called(dotted_name, take_rows(examples, dealt != group)) for group in range(groups)
    ]
    if any(value.ndim for value in left_out):
        raise MetricUndefinedError(
            f"{dotted_name} returned one number for all examples, and several for a part of them"
        )
    values = groups * float(whole) - (groups - 1) * np.array(left_out)
    # The jackknife's bias taken out.
    return np.asarray(values - values.mean() + float(whole))


def _called(dotted_name: str, examples: Examples) -> FloatArray:
    function = load_function(dotted_name)
    viewed = take_rows(examples, slice(None))
    for column in (*vars(viewed).values(), *viewed.slices.values()):
        if isinstance(column, np.ndarray):  # a function that sorts one in place changes no other
            column.flags.writeable = False
    try:
        result = np.asarray(function(viewed))
    except (Exception, SystemExit) as error:  # an exit with status 0 would look like a verdict
        raise MetricUndefinedError(
            f"{dotted_name} raised {type(error).__name__}: {clipped(str(error))}"
        ) from error
    if result.dtype.kind not in "biuf" or result.shape not in ((), (len(examples.labels),)):
        raise MetricUndefinedError(
            f"{dotted_name} returned an array of type {result.dtype} and shape {result.shape}, "
            f"expected one number, or one for each of the {len(examples.labels)} examples"
        )
    return result.astype(np.float64)


@dataclass(frozen=True)
class Unit:
    """The unit in which a metric is shown: `value / size`, followed by `name`."""

    name: str
    """Empty where the unit is the metric's own and not known."""
    size: float
    decimals: int | None
    """None: four significant digits, for values of any size."""

    def amount(self, value: float, *, signed: bool = False) -> str:
        """A difference of the metric, such as ``0.21 points`` or ``+0.0131 nats``."""
        return f"{self.number(value, signed=signed)} {self.name}".rstrip()

    def number(self, value: float, *, signed: bool = False) -> str:
        """The same without the unit's name."""
        # `z`: what rounds to zero is not shown as minus zero.
        sign = "+z" if signed else "z"
        precision = ".4g" if self.decimals is None else f".{self.decimals}f"
        return f"{value / self.size:{sign}{precision}}"


POINTS = Unit(name="points", size=0.01, decimals=2)
"""Percentage points: accuracy 0.95 against 0.94 is one point."""
NATS = Unit(name="nats", size=1.0, decimals=4)
OWN = Unit(name="", size=1.0, decimals=None)
_OF_POINTS = ("balanced_accuracy", "macro_f1", "micro_f1", "auroc", "calibration_error")
_UNITS = {**dict.fromkeys(("accuracy", *_OF_POINTS), POINTS), "log_loss": NATS}


def unit_of(metric: str) -> Unit:
    """The unit of a metric; its own, unnamed, where the gate does not know the metric."""
    return _UNITS.get(metric, OWN)
