"""Did the training teach the models anything? What their metrics say of that. Pure.

Two arms that both answer at chance are equally good, and worth nothing. So every guarded metric has
a floor: what is declared, or else what the best constant answer reaches, which is the most frequent
class, the classes' shares, the mean of the targets. An arm whose models are not better has learnt
nothing that the gate could compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from compilegate.evidence import EvidenceRecord, Examples
from compilegate.gate.quality.metrics import MetricUndefinedError, MetricValues, per_example
from compilegate.gate.reasons import Code, Reason, failure
from compilegate.gate.settings import GateSettings, MetricGuard

HAVE_A_CONSTANT = frozenset(
    {"accuracy", "balanced_accuracy", "macro_f1", "micro_f1", "auroc", "log_loss", "perplexity"}
    | {"mse", "mae"}
)
"""Metrics of which the best constant answer is known. The calibration error of one is zero."""


def below_floor(
    arm: str,
    records: Sequence[EvidenceRecord],
    settings: GateSettings,
    values: MetricValues,
) -> Iterator[Reason]:
    """For each guarded metric that the arm's replicates do not reach the floor of, the reason."""
    for metric in settings.guarded:
        guard = settings.metrics[metric]
        if guard.floor is not None:
            yield from _below_declared(arm, metric, guard, records, values)
        elif not guard.reported and guard.measure(metric) in HAVE_A_CONSTANT:
            yield from _no_better_than_constant(arm, metric, guard, records, values)


def _below_declared(
    arm: str,
    metric: str,
    guard: MetricGuard,
    records: Sequence[EvidenceRecord],
    values: MetricValues,
) -> Iterator[Reason]:
    found = [_value(metric, guard, record, values) for record in records]
    known = [value for value in found if value is not None]
    if not known or guard.floor is None:
        return
    mean = float(np.mean(known))
    if guard.better(guard.floor, mean):
        yield failure(
            Code.METRIC_BELOW_FLOOR,
            f"{metric} of arm {arm} is {mean:.5g} on average, and its floor is {guard.floor:.5g}.",
            metric=metric,
            value=mean,
            floor=guard.floor,
        )


def _value(
    metric: str, guard: MetricGuard, record: EvidenceRecord, values: MetricValues
) -> float | None:
    if guard.reported:
        return record.evidence.metrics.get(metric)
    if record.examples is None:
        return None
    try:
        return values.of(guard.measure(metric), record.examples)
    except MetricUndefinedError:
        return None


def _no_better_than_constant(
    arm: str,
    metric: str,
    guard: MetricGuard,
    records: Sequence[EvidenceRecord],
    values: MetricValues,
) -> Iterator[Reason]:
    scored = [record.examples for record in records if record.examples is not None]
    constant = best_constant(metric, scored[0]) if scored else None
    if constant is None:
        return
    try:
        floor = per_example(metric, constant)
        column = np.mean([values.column(metric, each) for each in scored], axis=0)
    except MetricUndefinedError:  # said of the replicates already
        return
    gain = (column - floor) * (1.0 if guard.direction == "higher" else -1.0)
    # One standard error: a model at chance is above it by luck in one experiment of six at most.
    noise = float(gain.std(ddof=1)) / np.sqrt(len(gain))
    if gain.mean() > noise:
        return
    yield failure(
        Code.METRIC_BELOW_FLOOR,
        f"{metric} of arm {arm} is {column.mean():.5g} on average, and one constant answer for all "
        f"examples reaches {floor.mean():.5g}: the models have not learnt anything that shows. "
        f"If that is as good as it gets, declare a floor for {metric}.",
        metric=metric,
        value=float(column.mean()),
        floor=float(floor.mean()),
    )


def best_constant(metric: str, examples: Examples) -> Examples | None:
    """What a model would score that gives the answer that is best for all examples; None where
    that is not known, or any answer is right since there is one class."""
    if examples.targets is not None:
        if metric not in ("mse", "mae"):
            return None
        answer = np.median(examples.targets) if metric == "mae" else examples.targets.mean()
        predictions = np.full(len(examples.targets), float(answer))
        return replace(examples, predictions=predictions)
    classes = examples.scores.shape[1]
    if classes < 2 or metric in ("mse", "mae"):
        return None
    counts = np.bincount(examples.labels, minlength=classes)
    if np.count_nonzero(counts) < 2:
        return None
    shares = counts / counts.sum()
    scores = np.tile(shares, (len(examples.labels), 1))
    return replace(examples, scores=scores, losses=-np.log(shares[examples.labels]))
