"""Metrics of the predicted probabilities: (examples,) columns whose mean is the metric."""

from __future__ import annotations

import numpy as np

from pipelines.gate.metrics.classification import accuracy
from training.evidence import Examples, FloatArray

CALIBRATION_BINS = 15


def log_loss(examples: Examples) -> FloatArray:
    """The recorded losses, in nats."""
    return examples.losses


def perplexity(examples: Examples) -> FloatArray:
    """The exponential of the mean loss, linearised."""
    mean = float(examples.losses.mean())
    column: FloatArray = np.exp(mean) * (1.0 + examples.losses - mean)
    return column


def calibration_error(examples: Examples) -> FloatArray:
    """Expected calibration error of the predicted class, 15 bins of equal width (Guo et al. 2017).

    It is the mean of (correct - confidence) with the sign of its bin's gap. That sign is taken as
    known, which is right but for bins that are calibrated to within their own noise; there the
    error itself is biased upwards, in both arms alike.
    """
    correct = accuracy(examples)
    confidence = examples.scores.max(axis=1)
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gap = correct - confidence
    signs = np.sign(np.bincount(bins, weights=gap, minlength=CALIBRATION_BINS))
    column: FloatArray = signs[bins] * gap
    return column
