"""How other tools would judge the same experiment: from one run per arm, without an interval.

MLflow's own function is called. TFMA's rule is restated: `GenericChangeThreshold` holds when the
difference is no smaller than `absolute` (where higher is better) or no larger (where lower is), in
`metrics_validator.py` of tensorflow/model-analysis, commit 03c863a; TFMA computes intervals but
does not use them there. The article's rule is one run of each arm "within 0.1%".
"""

from __future__ import annotations

import logging

from mlflow.models import MetricThreshold
from mlflow.models.evaluation import EvaluationResult
from mlflow.models.evaluation.validation import (
    ModelValidationFailedException,
    validate_evaluation_results,
)

from compilegate.gate.settings import MetricGuard

logging.getLogger("mlflow").setLevel(logging.WARNING)
WITHIN = 0.001
SMALLEST_CHANGE = 1e-10


def mlflow_threshold(baseline: float, candidate: float, guard: MetricGuard) -> bool:
    """MLflow with a threshold at the baseline's value minus the margin.

    There is no other way to allow a margin: `min_absolute_change` must be positive.
    """
    allowed = baseline - guard.margin if guard.direction == "higher" else baseline + guard.margin
    return _mlflow(baseline, candidate, guard, threshold=allowed)


def mlflow_change(baseline: float, candidate: float, guard: MetricGuard) -> bool:
    """MLflow's comparison of two models: the candidate must be better."""
    return _mlflow(baseline, candidate, guard, min_absolute_change=SMALLEST_CHANGE)


def tfma_change(baseline: float, candidate: float, guard: MetricGuard) -> bool:
    """TFMA's change threshold with the margin as its absolute value."""
    difference = candidate - baseline
    if guard.direction == "higher":
        return difference >= -guard.margin
    return difference <= guard.margin


def within_a_tenth_of_a_point(baseline: float, candidate: float, guard: MetricGuard) -> bool:
    """The article's rule, one-sided: at most a tenth of a point (or 0.001 nats) worse."""
    difference = candidate - baseline
    return difference >= -WITHIN if guard.direction == "higher" else difference <= WITHIN


RULES = {
    "MLflow, threshold": mlflow_threshold,
    "MLflow, change": mlflow_change,
    "TFMA": tfma_change,
    "article": within_a_tenth_of_a_point,
}


def _mlflow(baseline: float, candidate: float, guard: MetricGuard, **limit: float) -> bool:
    threshold = MetricThreshold(greater_is_better=guard.direction == "higher", **limit)
    try:
        validate_evaluation_results(
            {"metric": threshold},
            EvaluationResult(metrics={"metric": candidate}, artifacts={}),
            EvaluationResult(metrics={"metric": baseline}, artifacts={}),
        )
    except ModelValidationFailedException:
        return False
    return True
