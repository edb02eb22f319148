"""A metric that is a user's own function of the per-example columns.

    def top_two_accuracy(examples: Examples) -> FloatArray:      # one value per example
    def recall_at_90_precision(examples: Examples) -> float:     # one number

One value per example is used as it is: the metric is their mean. One number is taken apart by a
delete-a-group jackknife (Kott, "The delete-a-group jackknife", Journal of Official Statistics
2001): the examples are dealt into 100 groups, the function is called without each group in turn,
and the pseudo-values of the groups take the place of examples in the interval. That was preferred
to leaving out single examples, which would take as many calls as there are examples, and is
consistent for functions that are smooth in the data; a median or another quantile is not.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from compilegate.evidence import Examples, FloatArray, IntArray
from compilegate.evidence.rows import take_rows
from compilegate.gate.quality.metrics.errors import MetricFunctionError, MetricUndefinedError
from compilegate.gate.reasons import clipped

GROUPS = 100
MetricFunction = Callable[[Examples], "float | FloatArray"]


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


def pseudo_values(
    dotted_name: str, examples: Examples, units: IntArray | None = None
) -> FloatArray:
    """(examples,) or (groups,) values whose mean is the function's value.

    Rows are dealt to groups by their position, the same in every replicate whose rows are in the
    same order; (examples,) `units` are dealt as a whole. Raises MetricUndefinedError when the
    function fails or returns anything else.
    """
    whole = _called(dotted_name, examples)
    if whole.ndim == 1:
        return whole
    count = len(examples.labels) if units is None else int(units.max()) + 1
    groups = min(GROUPS, count)
    # Rows may lie in the order of their classes: shuffled, with a fixed generator, so that the
    # same evidence gives the same verdict.
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
    column: FloatArray = values - values.mean() + float(whole)  # the jackknife's bias taken out
    return column


def _called(dotted_name: str, examples: Examples) -> npt.NDArray[np.float64]:
    function = load_function(dotted_name)
    try:
        result = np.asarray(function(_read_only(examples)))
    except (Exception, SystemExit) as error:  # an exit with status 0 would look like a verdict
        raise MetricUndefinedError(
            f"{dotted_name} raised {type(error).__name__}: {clipped(str(error))}"
        ) from error
    if result.dtype.kind not in "biuf" or result.shape not in ((), (len(examples.labels),)):
        raise MetricUndefinedError(
            f"{dotted_name} returned an array of type {result.dtype} and shape {result.shape}, "
            f"allowed: one number, or one for each of the {len(examples.labels)} examples"
        )
    numbers = result.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise MetricUndefinedError(f"{dotted_name} returned a number that is not finite")
    return numbers


def _read_only(examples: Examples) -> Examples:
    """The same columns, but a function that sorts one in place changes no other metric."""
    viewed = take_rows(examples, slice(None))
    optional = (viewed.targets, viewed.predictions)
    columns = (viewed.ids, viewed.labels, viewed.scores, viewed.losses, *viewed.slices.values())
    for column in (*columns, *(each for each in optional if each is not None)):
        column.flags.writeable = False
    return viewed
