"""Metrics of predicted numbers: (examples,) columns whose mean is the metric."""

from __future__ import annotations

from compilegate.evidence import Examples, FloatArray
from compilegate.gate.quality.metrics.errors import MetricUndefinedError


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
