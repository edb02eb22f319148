"""Scores: what the metrics of an arm's models show before they are compared. Pure.

A metric may be undefined, disagree with what the job reports, lie below the floor that the workload
declares, or be that of a model that has learnt nothing: two arms that both answer at chance are
equally good, and worth nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from compilegate.gate.findings import Code, Finding, Subject
from compilegate.gate.metrics import MetricUndefinedError, MetricValues, best_constant, per_example
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.job.evidence import EvidenceRecord

REPORTED_TOLERANCE = 1e-4
"""Between a reported metric and the gate's own: jobs may print four decimals."""
CLEARLY_BETTER = 0.2
"""The share by which a metric is better than a constant answer's that no chance makes so."""
MARGINS_BETTER, ERRORS_SAVED = 3.0, 1.0 / 3.0
"""Margins, and the share of the baseline's errors, by which a compiler alone makes no model
better."""
SEEDS_APART = 5.0
"""Standard deviations of the baseline's seeds that are more than chance."""


def check_scores(
    arm: str, records: Mapping[int, EvidenceRecord], settings: GateSettings, values: MetricValues
) -> Iterator[tuple[int, Finding]]:
    """By seed, what the metrics of the arm's records show; `records` are by seed."""
    found: dict[str, list[float]] = {metric: [] for metric in settings.metrics}
    undefined: set[str] = set()
    for seed, record in records.items():
        about = Subject(seed)
        for metric, guard in settings.metrics.items():
            reported = record.evidence.metrics.get(metric)
            try:
                value = _value(metric, guard, record, values)
            except MetricUndefinedError as error:
                said = about.notes if guard.watched else about.fails
                if metric not in undefined:
                    text = f"{metric} cannot be computed: {error}."
                    yield seed, said(Code.METRIC_UNDEFINED, text, metric=metric)
                undefined.add(metric)
                continue
            if value is None:
                continue
            found[metric].append(value)
            tolerance = REPORTED_TOLERANCE * max(1.0, abs(value))
            if not guard.reported and reported is not None and abs(reported - value) > tolerance:
                text = (
                    f"the job reported {metric} {reported:.6g}; its examples give {value:.6g}, "
                    "which decided."
                )
                yield seed, about.notes(Code.METRIC_DISAGREES, text, metric=metric)
    first = next(iter(records), None)
    if first is not None:
        yield from ((first, it) for it in _below_floor(arm, Subject(first), found, settings))
        yield from ((first, it) for it in _at_constant(arm, records, found, settings))


def _value(
    metric: str, guard: MetricGuard, record: EvidenceRecord, values: MetricValues
) -> float | None:
    if guard.reported:
        return record.evidence.metrics.get(metric)
    return None if record.examples is None else values.of(guard.measure(metric), record.examples)


def _below_floor(
    arm: str, about: Subject, found: Mapping[str, list[float]], settings: GateSettings
) -> Iterator[Finding]:
    for metric in settings.guarded:
        guard, values = settings.metrics[metric], found[metric]
        mean = float(np.mean(values)) if values else None
        if mean is not None and guard.floor is not None and guard.better(guard.floor, mean):
            text = f"{metric} of {arm} is {mean:.5g} on average, its floor is {guard.floor:.5g}."
            code, floor = Code.METRIC_BELOW_FLOOR, guard.floor
            yield about.fails(code, text, metric=metric, value=mean, floor=floor)


def _at_constant(
    arm: str,
    records: Mapping[int, EvidenceRecord],
    found: Mapping[str, list[float]],
    settings: GateSettings,
) -> Iterator[Finding]:
    """The finding about models of which no guarded metric is better than a constant prediction's;
    none where one is, is unknown, or has a floor declared."""
    seed, record = next(iter(records.items()))
    guarded = [(metric, settings.metrics[metric]) for metric in settings.guarded]
    if any(guard.reported or guard.floor is not None for _, guard in guarded):
        return
    if record.examples is None:
        return
    for metric, guard in guarded:
        measure = guard.measure(metric)
        constant = best_constant(measure, record.examples)
        if constant is None or not found[metric]:
            return
        sign = 1.0 if guard.direction == "higher" else -1.0
        floor = per_example(measure, constant)
        gain = sign * (float(np.mean(found[metric])) - float(floor.mean()))
        if gain > CLEARLY_BETTER * max(abs(float(floor.mean())), 0.1):
            return
        try:
            column = sign * (per_example(measure, record.examples) - floor)
        except MetricUndefinedError:
            return
        # One standard error: a model at chance is above it by luck in one of six.
        if gain > float(column.std(ddof=1)) / np.sqrt(len(column)):
            return
    metrics = ", ".join(settings.guarded)
    text = (
        f"the models of {arm} are no better than a constant prediction ({metrics}). If that is as "
        "good as it gets, declare a floor."
    )
    yield Subject(seed).fails(Code.METRIC_AT_CONSTANT, text)


def too_good(
    before: Mapping[int, EvidenceRecord],
    after: Mapping[int, EvidenceRecord],
    settings: GateSettings,
    values: MetricValues,
) -> Iterator[Finding]:
    """A note on a candidate with the baseline's recipe whose models are all far better than the
    baseline's: a compiler computes what eager does."""
    seeds = [seed for seed in after if seed in before]
    for metric in settings.guarded if len(seeds) > 1 else ():
        guard = settings.metrics[metric]
        try:
            found = [
                [_value(metric, guard, each[seed], values) for seed in seeds]
                for each in (before, after)
            ]
        except MetricUndefinedError:
            continue
        usual, own = (np.array([it for it in each if it is not None]) for each in found)
        if not len(usual) == len(own) == len(seeds):
            continue
        gain = own - usual if guard.direction == "higher" else usual - own
        mean = float(usual.mean())
        margin = (guard.margin or 0.0) * (abs(mean) if guard.relative else 1.0)
        saved = guard.direction == "lower" and gain.mean() > ERRORS_SAVED * abs(mean)
        if gain.min() > SEEDS_APART * float(usual.std(ddof=1)) and (
            saved or gain.mean() > MARGINS_BETTER * margin
        ):
            text = (
                f"{metric} is {own.mean():.4g} on average against {mean:.4g}, with the same recipe:"
                " do both arms train and evaluate on the same data in the same way?"
            )
            yield Subject(seeds[0]).notes(Code.METRIC_TOO_GOOD, text, metric=metric)
            return
