"""Metrics of how far predictions are off: probabilities from the right class, numbers from targets.

Each is an (examples,) column whose mean is the metric.
"""

from __future__ import annotations

import numpy as np

from compilegate.evidence import Examples, FloatArray, IntArray
from compilegate.gate.quality.metrics.classification import accuracy, predicted_classes
from compilegate.gate.quality.metrics.errors import MetricUndefinedError

CALIBRATION_BINS = 15
SMALLEST_EXACT_SCORE = 1e-6
"""Below this a score may have lost its digits, and only the recorded loss still knows them."""
LOST_DIGITS = 2e-7
"""How much less than the truth a score may be that was computed as one minus another, in single
precision."""


def log_loss(examples: Examples) -> FloatArray:
    """Nats, by the score of each label. Where that is too small to be exact, what the job recorded,
    if it is no less than such a score allows; where there are no scores, what it recorded."""
    if not examples.scores.shape[1]:
        return examples.losses
    likelihood = label_scores(examples)
    exact = likelihood >= SMALLEST_EXACT_SCORE
    implied = -np.log(np.where(exact, likelihood, likelihood + LOST_DIGITS))
    column: FloatArray = np.where(exact, implied, np.maximum(examples.losses, implied))
    return column


def label_scores(examples: Examples) -> FloatArray:
    """(examples,) the score of each one's label."""
    likelihood: FloatArray = examples.scores[np.arange(len(examples.labels)), examples.labels]
    return likelihood


def loss(examples: Examples) -> FloatArray:
    """The recorded losses, in whatever unit the model's loss has."""
    return examples.losses


def perplexity(examples: Examples) -> FloatArray:
    """The exponential of the mean loss, linearised."""
    nats = log_loss(examples)
    mean = float(nats.mean())
    column: FloatArray = np.exp(mean) * (1.0 + nats - mean)
    return column


def calibration_error(examples: Examples) -> FloatArray:
    """Expected calibration error of the predicted class, 15 bins of equal width (Guo et al. 2017).

    It is the mean of (correct - confidence) with the sign of its bin's gap. That sign is taken as
    known, which is right but for bins that are calibrated to within their own noise; there the
    error itself is biased upwards, see `calibration_bias`.
    """
    bins, gaps = _bins_and_gaps(examples)
    signs = np.sign(np.bincount(bins, weights=gaps, minlength=CALIBRATION_BINS))
    column: FloatArray = signs[bins] * gaps
    return column


def calibration_bias(examples: Examples) -> float:
    """How far above its truth the calibration error of so few examples lies at most, on average.

    A bin without any gap shows one all the same, sqrt(2 / pi) of its gap's standard error, and one
    with a gap shows less too much. So a sample makes a calibrated baseline look miscalibrated, and
    hides what a candidate has lost (Roelofs et al., "Mitigating bias in calibration error
    estimation", AISTATS 2022). Kumar et al. (NeurIPS 2019) subtract an estimate of the bias, which
    is itself biased, and large where no example of a bin is wrong. The bound needs no estimate.
    """
    bins, gaps = _bins_and_gaps(examples)
    counts = np.bincount(bins, minlength=CALIBRATION_BINS)
    # A gap's variance is that of a correctness of mean `confidence`, were the bin calibrated:
    # what the sample shows of it is nothing where all of a few examples are right.
    confidence = _confidence(examples)
    calibrated = np.bincount(
        bins, weights=confidence * (1.0 - confidence), minlength=CALIBRATION_BINS
    )
    found = np.bincount(bins, weights=gaps**2, minlength=CALIBRATION_BINS)
    return float(np.sqrt(2.0 / np.pi * np.maximum(calibrated, found)).sum() / counts.sum())


def _bins_and_gaps(examples: Examples) -> tuple[IntArray, FloatArray]:
    """(examples,) the bin of each, and by how much it was right more than its confidence says."""
    correct = accuracy(examples)
    confidence = _confidence(examples)
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gaps: FloatArray = correct - confidence
    return bins, gaps


def _confidence(examples: Examples) -> FloatArray:
    """(examples,) the score of the predicted class."""
    predicted = predicted_classes(examples)
    confidence: FloatArray = examples.scores[np.arange(len(predicted)), predicted]
    return confidence


def mse(examples: Examples) -> FloatArray:
    """Squared errors, in the square of the target's unit."""
    return _errors(examples) ** 2


def mae(examples: Examples) -> FloatArray:
    """Absolute errors, in the target's unit."""
    return abs(_errors(examples))


def _errors(examples: Examples) -> FloatArray:
    if examples.targets is None or examples.predictions is None:
        raise MetricUndefinedError("these examples have no targets and predictions of numbers")
    return examples.predictions - examples.targets
