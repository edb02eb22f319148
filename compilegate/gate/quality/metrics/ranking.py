"""AUROC: how often a positive example is ranked above a negative one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compilegate.evidence import Examples, FloatArray, IntArray
from compilegate.gate.quality.metrics.errors import MetricUndefinedError


def auroc(examples: Examples) -> FloatArray:
    """Area under the ROC curve, linearised with DeLong's structural components.

    Of the second class when there are two; else the mean of each class against the rest, over the
    classes that occur. Raises MetricUndefinedError when all examples are of one class.
    """
    classes = examples.scores.shape[1]
    occurring = np.flatnonzero(np.bincount(examples.labels, minlength=classes))
    if classes < 2 or len(occurring) < 2:
        raise MetricUndefinedError("auroc needs scores, and examples of two or more classes")
    of_interest = [1] if classes == 2 else occurring.tolist()
    column = np.zeros(len(examples.labels))
    for index in of_interest:
        column += _one_against_rest(examples.scores[:, index], examples.labels == index)
    return column / len(of_interest)


def rank_flip(labels: IntArray) -> float:
    """In each class one example falls to where a typical one of the others lies.

    Its share of pairs that are ranked right falls to one half, so the area of class c moves by
    0.5 / counts[c] at most. This is what a flip is like where ranks are noisy; what a lost example
    costs is told by `lost_example`.
    """
    counts = np.unique(labels, return_counts=True)[1].astype(np.float64)
    areas = 1.0 if len(counts) == 2 else float(len(counts))
    return float(0.5 * len(labels) * np.sqrt(np.sum(1.0 / counts**2)) / areas)


def lost_example(labels: IntArray) -> float:
    """How far the column's value of one example moves that falls below all of the others.

    It then wins none of the pairs that it won, so the area of class c falls by 1 / counts[c].
    """
    counts = np.unique(labels, return_counts=True)[1]
    areas = 1 if len(counts) == 2 else len(counts)
    return float(len(labels) / counts.min() / areas)


def _one_against_rest(scores: FloatArray, positive: npt.NDArray[np.bool_]) -> FloatArray:
    count, positives = len(scores), int(positive.sum())
    negatives = count - positives
    order = np.argsort(scores)
    ranked, is_positive = scores[order], positive[order]
    # Ties share the middle of their ranks, so all that follows goes by blocks of equal scores.
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    ends = np.r_[starts[1:], count]
    before = np.r_[0, np.cumsum(is_positive)]
    first, last = before[starts], before[ends]
    positives_below = (first + last) / 2.0
    negatives_below = (starts + ends) / 2.0 - positives_below
    area = float(negatives_below @ (last - first)) / (positives * negatives)
    won_if_positive = area + (negatives_below / negatives - area) * (count / positives)
    won_if_negative = area + (1.0 - positives_below / positives - area) * (count / negatives)
    ties = ends - starts
    column = np.empty(count)
    column[order] = np.where(
        is_positive, np.repeat(won_if_positive, ties), np.repeat(won_if_negative, ties)
    )
    return column
