"""What can go wrong with a metric."""

from __future__ import annotations

from compilegate.errors import CompilegateError


class MetricUndefinedError(CompilegateError):
    """These examples do not determine the metric: one sentence that says which and why."""


class MetricFunctionError(CompilegateError):
    """A user's metric function cannot be loaded: one sentence with its dotted name."""
