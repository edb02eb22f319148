"""Did the training teach the models anything? What their metrics say of that. Pure.

Two arms that both answer at chance are equally good, and worth nothing. So every guarded metric has
a floor: what is declared, or else what the best constant answer reaches, which is the most frequent
class, the classes' shares, the mean of the targets. An arm whose models are not better has learnt
nothing that the gate could compare.

And a compiler teaches nothing: one that trains the baseline's recipe and saves a third of its
errors, in all seeds, was given something that the baseline was not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from compilegate.evidence import EvidenceRecord, Examples, FloatArray
from compilegate.gate.quality.metrics import MetricUndefinedError, MetricValues, per_example
from compilegate.gate.reasons import Code, Outcome, Reason, failure
from compilegate.gate.settings import GateSettings, MetricGuard

HAVE_A_CONSTANT = frozenset(
    {"accuracy", "balanced_accuracy", "macro_f1", "micro_f1", "auroc", "log_loss", "perplexity"}
    | {"mse", "mae"}
)
"""Metrics of which the best constant answer is known. The calibration error of one is zero."""

MARGINS_BETTER = 3.0
"""Margins by which a compiler alone makes no model better."""
ERRORS_SAVED = 1.0 / 3.0
"""The share of the baseline's errors, or losses, that a compiler alone does not save."""
SEEDS_APART = 5.0
"""Standard deviations of the baseline's seeds that are more than chance."""
EACH_APART = 2.0
"""The same of each seed by itself."""
ROWS_APART = 4.0
"""Standard errors over the examples that are."""


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


def too_good(
    before: Mapping[int, EvidenceRecord],
    after: Mapping[int, EvidenceRecord],
    settings: GateSettings,
    values: MetricValues,
) -> Iterator[Reason]:
    """A doubt of a candidate with the baseline's recipe whose models are all far better than the
    baseline's, by seed: a compiler computes what eager does, and knows no answers."""
    seeds = [seed for seed in after if seed in before]
    if len(seeds) < 2:
        return
    for metric in settings.guarded:
        guard = settings.metrics[metric]
        found = [
            [_value(metric, guard, each[seed], values) for seed in seeds]
            for each in (before, after)
        ]
        usual, own = (np.array([it for it in each if it is not None]) for each in found)
        if not len(usual) == len(own) == len(seeds):
            continue
        gain = own - usual if guard.direction == "higher" else usual - own
        spread = float(usual.std(ddof=1))
        # Of all seeds, so that one lucky seed makes no doubt.
        clear = gain.mean() > SEEDS_APART * spread and gain.min() > EACH_APART * spread
        if not clear or not _is_implausible(metric, guard, usual, gain):
            continue
        if _may_be_chance(metric, guard, before[seeds[0]], after[seeds[0]]):
            continue
        yield Reason(
            Code.METRIC_TOO_GOOD,
            Outcome.INCONCLUSIVE,
            f"{metric} is {own.mean():.4g} on average and {usual.mean():.4g} in the baseline, with "
            "the same recipe: a compiler makes no model that much better. See whether both arms "
            "train and evaluate on the same data in the same way.",
            {"metric": metric, "value": float(own.mean()), "baseline": float(usual.mean())},
        )
        return


def _is_implausible(metric: str, guard: MetricGuard, usual: FloatArray, gain: FloatArray) -> bool:
    """Whether it is better by several margins, or has a third fewer errors."""
    mean = float(usual.mean())
    margin = (guard.margin or 0.0) * (abs(mean) if guard.relative else 1.0)
    if margin > 0.0 and float(gain.mean()) > MARGINS_BETTER * margin:
        return True
    if guard.direction == "lower":
        return mean > 0.0 and float(gain.mean()) > ERRORS_SAVED * mean
    best = 1.0 if not guard.reported and guard.measure(metric) in HAVE_A_CONSTANT else None
    return best is not None and float(gain.mean()) > ERRORS_SAVED * (best - mean)


def _may_be_chance(
    metric: str, guard: MetricGuard, before: EvidenceRecord, after: EvidenceRecord
) -> bool:
    """Whether as few examples could have made such a difference."""
    if guard.reported or guard.function is not None:
        return False
    if before.examples is None or after.examples is None:
        return True
    if len(before.examples.ids) != len(after.examples.ids):
        return True
    try:
        usual, own = (
            per_example(guard.measure(metric), each) for each in (before.examples, after.examples)
        )
    except MetricUndefinedError:
        return True
    apart = own - usual
    error = float(apart.std()) / np.sqrt(len(apart))
    return bool(abs(float(apart.mean())) <= ROWS_APART * error)


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
