"""How the report writes numbers: seconds, bytes, money, ratios, metrics. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from compilegate.gate.findings import Outcome
from compilegate.gate.metrics import NATS, OWN, unit_of
from compilegate.gate.verdict import Amount, Interval

NOTE = "note"
"""Shown instead of an outcome for what decides nothing."""
MARKS = {
    Outcome.PASS: "\N{CHECK MARK}",
    Outcome.INCONCLUSIVE: "?",
    Outcome.FAIL: "\N{MULTIPLICATION X}",
    NOTE: "\N{BULLET}",
}
"""Beside each outcome's colour, for those who do not see it."""
NOTHING = "–"  # noqa: RUF001 - an en dash stands for "not measured" in tables
_METRIC_NAMES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "macro_f1": "Macro F1",
    "micro_f1": "Micro F1",
    "auroc": "AUROC",
    "log_loss": "Log loss",
    "loss": "Loss",
    "perplexity": "Perplexity",
    "calibration_error": "Calibration error",
    "mse": "Mean squared error",
    "mae": "Mean absolute error",
}


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


def dollars(value: float) -> str:
    """Whole cents from a dollar on, else three significant digits: ``$12.30``, ``$0.0042``.

    The value is not negative.
    """
    return f"${value:,.2f}" if value >= 1.0 or value == 0.0 else f"${value:.3g}"


def amount(value: Amount) -> str:
    """A time, with its dollars where they are known: ``4.1 min ($0.25)``."""
    if value.usd is None:
        return seconds(value.seconds)
    return f"{seconds(value.seconds)} ({dollars(value.usd)})"


def memory(value: float | None) -> str:
    """Bytes in MB or GB (powers of ten)."""
    if not value:
        return "not measured"
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def times(value: float | None) -> str:
    """A ratio to two decimals, with a multiplication sign."""
    return NOTHING if value is None else f"{value:.2f}×"  # noqa: RUF001


def required(speedup: float | None) -> str:
    """A limit of the speed-up; None where no value is enough."""
    return "no speed-up is enough" if speedup is None else f"required {times(speedup)}"


def bounds(interval: Interval) -> str:
    """The bounds of a ratio."""
    return f"{times(interval.lower)} to {times(interval.upper)}"


def against(
    write: Callable[[float | None], str], candidate: float | None, baseline: float | None
) -> str:
    """A candidate's value beside the baseline's."""
    return f"{write(candidate)} against {write(baseline)}"


def count(value: int | None) -> str:
    """A count with thousands separated."""
    return NOTHING if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """Samples per second."""
    return NOTHING if value is None else f"{value:,.1f}"


def error_ratio(ratio: float | None) -> str:
    """An error as a multiple of what rounding explains: three digits, written out as people do."""
    if ratio is None:
        return "not a finite number"
    written_out = 1e3 <= abs(ratio) < 1e9
    return f"{float(f'{ratio:.3g}'):,.0f} times" if written_out else f"{ratio:.3g} times"


def rounded(value: float, *, up: bool = True) -> float:
    """The nearest number of two significant digits above, or below; `value` is positive."""
    size = 10.0 ** (math.floor(math.log10(value)) - 1)
    digits = math.ceil(value / size - 1e-9) if up else math.floor(value / size + 1e-9)
    return float(f"{digits * size:.6g}")


def metric_name(metric: str) -> str:
    """``macro_f1`` as people write it; a user's own metric as the user does."""
    return _METRIC_NAMES.get(metric, metric)


def metric_value(metric: str, value: float | None) -> str:
    """A metric's value: per cent for fractions, nats for log loss, else four digits."""
    if value is None:
        return NOTHING
    if unit_of(metric) == OWN:
        return f"{value:.4g}"
    return f"{value:.4f}" if unit_of(metric) == NATS else f"{value * 100:.2f}%"
