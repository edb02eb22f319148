"""The metrics that a built-in algorithm's jobs have without declaring any. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from compilegate.local.algorithms.images import K_MEANS, LINEAR_LEARNER, XGBOOST, Algorithm

_CHANNELS = ("train", "validation")

_XGBOOST_DEFAULTS: Mapping[str, str] = {
    "binary:hinge": "error",
    "binary:logistic": "logloss",
    "binary:logitraw": "logloss",
    "count:poisson": "poisson-nloglik",
    "multi:softmax": "mlogloss",
    "multi:softprob": "mlogloss",
    "rank:map": "map",
    "rank:ndcg": "ndcg",
    "rank:pairwise": "ndcg",
    "reg:absoluteerror": "mae",
    "reg:gamma": "gamma-nloglik",
    "reg:logistic": "rmse",
    "reg:pseudohubererror": "mphe",
    "reg:squaredlogerror": "rmsle",
    "survival:aft": "aft-nloglik",
    "survival:cox": "cox-nloglik",
}
"""The metric that XGBoost computes for an objective, where eval_metric names none."""


_XGBOOST_EVALUATED = (
    *sorted({*_XGBOOST_DEFAULTS.values(), "rmse"}),
    *(
        "accuracy",
        "auc",
        "aucpr",
        "balanced_accuracy",
        "f1",
        "f1_binary",
        "f1_macro",
        "gamma-deviance",
    ),
    *("mape", "merror", "mse", "precision", "precision_macro", "precision_micro", "r2", "recall"),
    *("recall_macro", "recall_micro"),
)
"""What XGBoost and its image can evaluate."""


def script_metrics(algorithm: Algorithm) -> list[tuple[str, re.Pattern[str]]]:
    """Those that the image defines for a script of the user's: whatever it evaluates.

    The library prints a tab where CloudWatch shows `#011`; scripts print either.
    """
    if algorithm.name != XGBOOST:
        return []
    return [
        (
            f"{channel}:{metric}",
            re.compile(rf"\[[0-9]+\].*(?:#011|\t){channel}-{re.escape(metric)}:([^\s#]+)"),
        )
        for channel in _CHANNELS
        for metric in _XGBOOST_EVALUATED
    ]


def own_metrics(
    algorithm: Algorithm, hyperparameters: Mapping[str, str]
) -> list[tuple[str, re.Pattern[str]]]:
    """Names and expressions of the metrics that the image defines by itself."""
    if algorithm.name == LINEAR_LEARNER:
        return _linear_metrics()
    if algorithm.name == K_MEANS:
        return [
            (f"{channel}:{metric}", _quality(f"{channel} {metric}"))
            for channel in ("train", "test")
            for metric in ("msd", "ssd")
        ]
    if algorithm.name != XGBOOST:
        return []
    named = str(hyperparameters.get("eval_metric", "")).replace("[", "").replace("]", "")
    asked = [metric.strip("'\" ") for metric in named.split(",") if metric.strip("'\" ")]
    objective = str(hyperparameters.get("objective", "reg:squarederror"))
    if objective == "reg:tweedie":
        power = hyperparameters.get("tweedie_variance_power", "1.5")
        default = f"tweedie-nloglik@{power}"
    else:
        default = _XGBOOST_DEFAULTS.get(objective, "rmse")
    return [
        (
            f"{channel}:{metric}",
            re.compile(rf"\[[0-9]+\].*#011{channel}-{re.escape(metric)}:([^\s#]+)"),
        )
        for channel in _CHANNELS
        for metric in dict.fromkeys(asked or [default])
    ]


_LINEAR_MEASURES = (
    *("absolute_loss", "binary_classification_accuracy", "binary_f_beta", "dcg", "macro_f_beta"),
    *("macro_precision", "macro_recall", "mae", "mse", "multiclass_accuracy"),
    *("multiclass_top_k_accuracy", "precision", "r2", "recall", "rmse", "roc_auc_score"),
)


def _linear_metrics() -> list[tuple[str, re.Pattern[str]]]:
    channels = (*_CHANNELS, "test")
    objectives = [
        (f"{channel}:objective_loss{end}", _quality(rf"{each}{channel} \S+_objective"))
        for channel in channels
        for end, each in (("", r"(?:epoch=\S+, )?"), (":final", ""))
        if channel != "test" or not end
    ]
    return objectives + [
        (f"{channel}:{metric}", _quality(f"{channel} {metric}"))
        for channel in channels
        for metric in _LINEAR_MEASURES
    ]


def _quality(what: str) -> re.Pattern[str]:
    return re.compile(rf"#quality_metric: host=\S+, {what} <(?:score|loss)>=(\S+)")
