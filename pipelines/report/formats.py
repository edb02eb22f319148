"""How the report writes numbers: seconds, bytes, ratios, counts. Pure; used by every rendering."""

from __future__ import annotations

NOTHING = "–"  # noqa: RUF001 - an en dash stands for "not measured" in tables


def seconds(value: float | None) -> str:
    """A duration with the unit that suits its size: ``42 ms``, ``3.1 s``, ``12 min``, ``6.2 h``."""
    if value is None:
        return NOTHING
    size = abs(value)
    if size < 1.0:
        return f"{value * 1000:.3g} ms"
    if size < 100.0:
        return f"{value:.1f} s"
    if size < 7200.0:
        return f"{value / 60:.1f} min"
    return f"{value / 3600:,.1f} h"


def memory(value: int | None) -> str:
    """Bytes in MB or GB (powers of ten); zero means that the job did not record it."""
    if not value:
        return NOTHING
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def times(value: float | None) -> str:
    """A ratio to two decimals, with a multiplication sign."""
    return NOTHING if value is None else f"{value:.2f}×"  # noqa: RUF001


def count(value: int | None) -> str:
    """A count with thousands separated."""
    return NOTHING if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """Samples per second."""
    return NOTHING if value is None else f"{value:,.1f}"


def break_even(steps: int | None, minutes: float | None) -> str:
    """When compilation has paid for itself."""
    if steps is None or minutes is None:
        return "never"
    if steps == 0:
        return "from the first step"
    return f"{steps:,} steps, {seconds(minutes * 60)}"


def metric_name(metric: str) -> str:
    """``macro_f1`` as people write it."""
    names = {
        "accuracy": "Accuracy",
        "balanced_accuracy": "Balanced accuracy",
        "macro_f1": "Macro F1",
        "log_loss": "Log loss",
    }
    return names.get(metric, metric)


def metric_value(metric: str, value: float | None) -> str:
    """A metric's value: per cent for fractions, nats for log loss."""
    if value is None:
        return NOTHING
    return f"{value:.4f}" if metric == "log_loss" else f"{value * 100:.2f}%"
