"""What can go wrong with a metric."""

from __future__ import annotations


class MetricUndefinedError(Exception):
    """These examples do not determine the metric: one sentence that says which and why."""


class MetricFunctionError(Exception):
    """A user's metric function cannot be loaded: one sentence with its dotted name."""
