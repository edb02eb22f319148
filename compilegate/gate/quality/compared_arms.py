"""Quality: each metric and slice of each candidate against the baseline, before any confidence.

The loops go by metric, so that at most one metric's columns of all arms are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from compilegate.evidence import Examples, FloatArray
from compilegate.evidence.rows import take_rows
from compilegate.gate.quality.clusters import (
    FEWEST_UNITS,
    Source,
    Units,
    about_declared,
    about_neighbours,
    about_repeated,
    declared_units,
    repeated_units,
)
from compilegate.gate.quality.comparison import (
    ArmScores,
    Comparison,
    arm_scores,
    compare_scores,
    mean_difference,
)
from compilegate.gate.quality.metrics import MetricUndefinedError, MetricValues
from compilegate.gate.quality.slices import Part, parts_of, undefined
from compilegate.gate.reasons import Code, Note, Reason
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.statistics.difference_interval import CrossedMean


@dataclass(frozen=True)
class Replicates:
    """What the replicates of one sound arm measured, in the order of the seeds."""

    examples: Sequence[Examples]
    """Row by row the same examples in all replicates of all arms."""
    reported: Sequence[Mapping[str, float]]
    """The metrics that the jobs themselves reported."""
    called: str = "the baseline"
    """In sentences."""


@dataclass(frozen=True)
class Contrast:
    """One metric of a candidate, minus that of the compiler-only one."""

    metric: str
    difference: CrossedMean


@dataclass
class ArmQuality:
    """What is known of one candidate's quality."""

    comparisons: list[Comparison] = field(default_factory=list)
    findings: list[Reason | Note] = field(default_factory=list)
    """What could not be judged, and why."""
    contrasts: list[Contrast] = field(default_factory=list)
    """With the compiler-only candidate, where there is another one."""


def compare_arms(
    settings: GateSettings,
    baseline: Replicates,
    candidates: Mapping[str, Replicates],
    compiler_only: Mapping[str, str],
    values: MetricValues | None = None,
) -> dict[str, ArmQuality]:
    """Compare every candidate with the baseline, and with the compiler-only one.

    `compiler_only` names the latter for a candidate that has one, both being keys of `candidates`;
    `values` has the metrics that are known already.
    """
    values = values or MetricValues()
    found = {name: ArmQuality() for name in candidates}
    units, about_units = _units(settings, baseline, candidates)
    for quality in found.values():
        quality.findings += about_units
    for metric, guard in settings.metrics.items():
        _compare_metric(
            metric,
            guard,
            baseline,
            candidates,
            compiler_only=compiler_only,
            found=found,
            values=values,
            units=units,
        )
    for part in _parts(settings, baseline, found):
        _compare_part(settings, part, baseline, candidates, found=found, units=units)
    return found


def metric_by_seed(
    metric: str, guard: MetricGuard, arm: Replicates, values: MetricValues
) -> list[float]:
    """The metric of each replicate. Raises MetricUndefinedError."""
    if guard.reported:
        return [float(value) for value in _reported(metric, arm)]
    if len(arm.examples) < len(arm.reported):
        raise MetricUndefinedError("a job wrote no examples")
    return [values.of(guard.measure(metric), examples) for examples in arm.examples]


def _compare_metric(
    metric: str,
    guard: MetricGuard,
    baseline: Replicates,
    candidates: Mapping[str, Replicates],
    *,
    compiler_only: Mapping[str, str],
    found: Mapping[str, ArmQuality],
    values: MetricValues,
    units: Units | None,
) -> None:
    after: dict[str, ArmScores] = {}
    try:
        before = _scores(metric, guard, baseline, values, units)
    except MetricUndefinedError as error:
        for quality in found.values():
            quality.findings.append(_undefined(metric, guard, error))
        return
    for name, arm in candidates.items():
        try:
            after[name] = _scores(metric, guard, arm, values, units)
        except MetricUndefinedError as error:
            found[name].findings.append(_undefined(metric, guard, error))
    for name, scores in after.items():
        compared = compare_scores(metric, guard, before, scores, against=baseline.called)
        found[name].comparisons.append(compared)
        if compared.units is not None and compared.units.source is Source.NEIGHBOURS:
            found[name].findings.append(about_neighbours(metric, compared.units))
        if compiler_only.get(name) in after:
            # Before neighbours are put together, which differ by candidate.
            difference = mean_difference(scores, after[compiler_only[name]])
            found[name].contrasts.append(Contrast(metric, difference))


def _undefined(metric: str, guard: MetricGuard, error: MetricUndefinedError) -> Note:
    """A note: what is guarded and undefined fails its replicate by a reason of its own."""
    watched = "is watched but " if guard.watched else ""
    sentence = f"{metric} {watched}cannot be computed: {error}."
    return Note(Code.METRIC_UNDEFINED, sentence, {"metric": metric})


def _scores(
    metric: str, guard: MetricGuard, arm: Replicates, values: MetricValues, units: Units | None
) -> ArmScores:
    if guard.reported:
        return ArmScores(_reported(metric, arm))
    if len(arm.examples) < len(arm.reported):
        raise MetricUndefinedError("a job wrote no examples")
    return arm_scores(guard.measure(metric), arm.examples, values, units)


def _reported(metric: str, arm: Replicates) -> FloatArray:
    values = [reported.get(metric) for reported in arm.reported]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        raise MetricUndefinedError("a job did not report it")
    return np.array(known)


def _units(
    settings: GateSettings, baseline: Replicates, candidates: Mapping[str, Replicates]
) -> tuple[Units | None, list[Reason | Note]]:
    """What rows go together in, and what is to be said of it."""
    replicates = [*baseline.examples, *(it for arm in candidates.values() for it in arm.examples)]
    if not baseline.examples or not settings.from_examples:
        return None, []
    if settings.groups is not None:
        units = declared_units(settings.groups, replicates[0])
        about = about_declared(settings.groups, units, replicates[0])
        return None if isinstance(about, Reason) else units, [about]
    units = repeated_units(replicates)
    return units, [] if units is None else [about_repeated(units)]


def _parts(
    settings: GateSettings, baseline: Replicates, found: Mapping[str, ArmQuality]
) -> Iterator[Part]:
    if len(baseline.examples) < len(baseline.reported):
        return
    for guard in settings.slices:
        for part in parts_of(guard, baseline.examples[0]):
            if isinstance(part, Part):
                yield part
                continue
            for quality in found.values():
                quality.findings.append(part)


def _compare_part(
    settings: GateSettings,
    part: Part,
    baseline: Replicates,
    candidates: Mapping[str, Replicates],
    *,
    found: Mapping[str, ArmQuality],
    units: Units | None,
) -> None:
    guard = settings.guard_of(part.guard)
    of_part = None if units is None else units.of(part.rows)
    if of_part is not None and of_part.count < FEWEST_UNITS:
        for quality in found.values():
            quality.findings.append(undefined(part, "its rows all belong to one group"))
        return
    measure = guard.measure(part.guard.metric)
    for name, arm in candidates.items():
        if len(arm.examples) < len(arm.reported):
            continue
        try:
            before, after = (
                arm_scores(
                    measure, [take_rows(item, part.rows) for item in one.examples], units=of_part
                )
                for one in (baseline, arm)
            )
        except MetricUndefinedError as error:
            found[name].findings.append(undefined(part, str(error)))
            continue
        found[name].comparisons.append(
            compare_scores(
                part.guard.metric, guard, before, after, part.name, against=baseline.called
            )
        )
