"""Metrics that are fractions by kind, so that a value above one is something else: a percentage."""

from __future__ import annotations

_FRACTIONS = frozenset(
    [
        "acc",
        "accuracy",
        "ap",
        "auc",
        "auroc",
        "calibration_error",
        "dice",
        "error_rate",
        "f1",
        "iou",
        "map",
        "mrr",
        "precision",
        "recall",
        "sensitivity",
        "specificity",
        "top1",
        "top5",
    ]
)
_ROUNDING = 1e-6


def is_fraction(metric: str) -> bool:
    """Whether a metric of that name lies between 0 and 1: `accuracy`, `macro_f1`, `eval_auc`."""
    words = metric.lower().replace("/", "_").replace("-", "_").split("_")
    return words[-1] in _FRACTIONS or "_".join(words[-2:]) in _FRACTIONS


def above_one(metric: str, value: float) -> bool:
    """Whether the value cannot be the fraction that the metric is; False for what is no number."""
    return is_fraction(metric) and value > 1.0 + _ROUNDING
