"""Scores: what the metrics of an arm's models show before they are compared. Pure.

A metric may be undefined, disagree with what the job reports, lie below the floor that the workload
declares, or be that of a model that has learnt nothing: two arms that both answer at chance are
equally good, and worth nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from compilegate.gate.findings import Code, Finding, Subject
from compilegate.gate.metrics import (
    MetricAbsentError,
    MetricUndefinedError,
    MetricValues,
    best_constant,
    per_example,
)
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
    """(seed, finding) for what the metrics of an arm's records show; `records` are by seed."""
    means: dict[str, float] = {}
    for metric, guard in settings.metrics.items():
        found, is_undefined = list[float](), False
        for seed, record in records.items():
            about, reported = Subject(seed), record.evidence.metrics.get(metric)
            try:
                value = values.of_record(metric, guard, record)
            except MetricAbsentError:
                continue  # a finding about the record says so
            except MetricUndefinedError as error:
                report = about.notes if guard.watched else about.fails
                if not is_undefined:
                    text = f"{metric} cannot be computed: {error}."
                    yield seed, report(Code.METRIC_UNDEFINED, text, metric=metric)
                is_undefined = True
                continue
            found.append(value)
            tolerance = REPORTED_TOLERANCE * max(1.0, abs(value))
            if reported is not None and abs(reported - value) > tolerance:
                text = (
                    f"the job reported {metric} {reported:.6g}; its examples give {value:.6g}, "
                    "which decided."
                )
                yield seed, about.notes(Code.METRIC_DISAGREES, text, metric=metric)
        if found and not guard.watched:
            means[metric] = float(np.mean(found))
    if records:
        first = next(iter(records))
        yield from ((first, it) for it in _about_means(arm, first, records[first], means, settings))


def _about_means(
    arm: str,
    seed: int,
    record: EvidenceRecord,
    means: Mapping[str, float],
    settings: GateSettings,
) -> Iterator[Finding]:
    """Findings about an arm's guarded metrics; `record` is that of its first seed."""
    about = Subject(seed)
    for metric, mean in means.items():
        guard = settings.metrics[metric]
        if guard.floor is not None and guard.sign * (guard.floor - mean) > 0.0:
            text = f"{metric} of {arm} is {mean:.5g} on average, its floor is {guard.floor:.5g}."
            code, floor = Code.METRIC_BELOW_FLOOR, guard.floor
            yield about.fails(code, text, metric=metric, value=mean, floor=floor)
    if all(
        _at_constant(metric, settings.metrics[metric], record, means) for metric in settings.guarded
    ):
        text = (
            f"the models of {arm} are no better than a constant prediction "
            f"({', '.join(settings.guarded)}). If that is as good as it gets, declare a floor."
        )
        yield about.fails(Code.METRIC_AT_CONSTANT, text)


def _at_constant(
    metric: str, guard: MetricGuard, record: EvidenceRecord, means: Mapping[str, float]
) -> bool:
    """Whether a metric is no better than a constant prediction's; False where that is not known, or
    a floor is declared."""
    if guard.reported or guard.floor is not None or metric not in means or record.examples is None:
        return False
    measure, sign = guard.measure(metric), guard.sign
    constant = best_constant(measure, record.examples)
    if constant is None:
        return False
    answers = per_example(measure, constant)
    usual = float(answers.mean())
    gain = sign * (means[metric] - usual)
    if gain > CLEARLY_BETTER * max(abs(usual), 0.1):
        return False
    try:
        column = sign * (per_example(measure, record.examples) - answers)
    except MetricUndefinedError:
        return False
    # One standard error: a model at chance is above it by luck in one of six.
    return gain <= float(column.std(ddof=1)) / math.sqrt(len(column))


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
            usual, own = (
                np.array([values.of_record(metric, guard, each[seed]) for seed in seeds])
                for each in (before, after)
            )
        except MetricUndefinedError:
            continue
        gain, mean = guard.sign * (own - usual), float(usual.mean())
        margin = guard.margin_at(mean) or 0.0
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
