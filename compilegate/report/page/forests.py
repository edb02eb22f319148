"""What was compared, as pictures: a forest for each metric, for speed, parity and memory. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from compilegate.gate.metrics import unit_of
from compilegate.gate.verdict import CandidateVerdict, MetricJudgement, ParityJudgement, Verdict
from compilegate.report import formats
from compilegate.report.charts.forest import Forest, Row, forest_chart
from compilegate.report.page.rendering import with_minus_signs


@dataclass(frozen=True)
class Picture:
    """One chart, with what stands above it."""

    name: str
    detail: str
    chart: Markup


def pictures(verdict: Verdict, colours: Mapping[str, str]) -> list[Picture]:
    """All intervals of a verdict, one picture for each thing that was compared."""
    compared = (
        item.metric for it in verdict.candidates for item in it.metrics if item.part is None
    )
    metrics = [_metric(verdict, name, colours) for name in dict.fromkeys(compared)]
    others = [
        picture for draw in (_speed, _parity) if (picture := draw(verdict, colours)) is not None
    ]
    return [*metrics, *others]


def _metric(verdict: Verdict, name: str, colours: Mapping[str, str]) -> Picture:
    unit = unit_of(name)
    found = {
        it.arm: next((one for one in it.metrics if one.metric == name and one.part is None), None)
        for it in verdict.candidates
    }
    first = next(one for one in found.values() if one is not None)
    floor = next((one for one in verdict.baseline.noise_floor if one.metric == name), None)

    def write(value: float) -> str:
        return with_minus_signs(unit.number(value * unit.size, signed=True))

    rows = [
        _metric_row(it, found[it.arm], colours.get(it.arm, ""), unit.size)
        for it in verdict.candidates
    ]
    forest = Forest(
        rows=rows,
        reference=0.0,
        reference_label="no difference",
        write_limit=lambda limit: f"margin {write(limit)}",
        higher_is_better=first.direction == "higher",
        unit=unit.name or "the metric's own unit",
        noise=floor.seed_sd / unit.size if floor else None,
    )
    shown = formats.metric_name(name)
    return Picture(
        shown,
        f"difference from the baseline's {formats.metric_value(name, first.baseline)}"
        + ("" if first.margin is not None else "; watched, decides nothing"),
        forest_chart(forest, title=f"{shown} against the baseline", identity=f"forest-{name}"),
    )


def _metric_row(
    candidate: CandidateVerdict, metric: MetricJudgement | None, colour: str, size: float
) -> Row:
    if metric is None:
        return _empty(candidate, colour, "not compared")
    unit = unit_of(metric.metric)
    estimate = unit.amount(metric.delta.estimate, signed=True)
    bounds = (
        f"{unit.number(metric.delta.lower, signed=True)} to "
        f"{unit.number(metric.delta.upper, signed=True)}"
    )
    values = (
        f"{formats.metric_value(metric.metric, metric.candidate)} against "
        f"{formats.metric_value(metric.metric, metric.baseline)}"
    )
    tip = (
        f"{candidate.arm}: {values}",
        f"{estimate}, interval {bounds}",
        formats.margin_in_words(metric),
        f"{_counted(metric.seeds, 'seed')}, {_counted(metric.examples, 'example')}",
    )
    return Row(
        name=candidate.arm,
        colour=colour,
        estimate=metric.delta.estimate / size,
        lower=metric.delta.lower / size,
        upper=metric.delta.upper / size,
        limit=None if metric.limit is None else metric.limit / size,
        outcome=metric.outcome or formats.WATCHED,
        value=with_minus_signs(f"{unit.number(metric.delta.estimate, signed=True)} ({bounds})"),
        tip=tuple(map(with_minus_signs, tip)),
    )


def _speed(verdict: Verdict, colours: Mapping[str, str]) -> Picture | None:
    if not any(it.speed for it in verdict.candidates):
        return None
    limits = {it.speed.required_speedup for it in verdict.candidates if it.speed is not None}
    rows = [
        _speed_row(it, colours.get(it.arm, ""), own_limit=len(limits) > 1)
        for it in verdict.candidates
    ]
    forest = Forest(
        rows=rows,
        reference=1.0,
        reference_label="same speed",
        write_limit=lambda limit: f"required {formats.times(limit)}",
        higher_is_better=True,
        unit="times the baseline's samples per second",
        nothing_label="no speed-up is enough",
    )
    rates = [it.speed.baseline_samples_per_second for it in verdict.candidates if it.speed]
    return Picture(
        "Speed-up",
        f"over the baseline's {formats.rate(rates[0])} samples/s",
        forest_chart(forest, title="Speed-up over the baseline", identity="forest-speed"),
    )


def _speed_row(candidate: CandidateVerdict, colour: str, *, own_limit: bool) -> Row:
    speed = candidate.speed
    if speed is None:
        return _empty(candidate, colour, "not measured")
    interval = speed.speedup
    bounds = f"{interval.lower:.2f} to {interval.upper:.2f}"
    needs = (
        ", none is enough"
        if speed.required_speedup is None
        else f", needs {formats.times(speed.required_speedup)}"
    )
    return Row(
        name=candidate.arm,
        colour=colour,
        estimate=interval.estimate,
        lower=interval.lower,
        upper=interval.upper,
        limit=speed.required_speedup,
        outcome=speed.outcome,
        value=f"{formats.times(interval.estimate)} ({bounds}){needs if own_limit else ''}",
        tip=(
            f"{candidate.arm}: {formats.times(interval.estimate)}, interval {bounds}",
            f"{formats.rate(speed.candidate_samples_per_second)} against "
            f"{formats.rate(speed.baseline_samples_per_second)} samples/s",
            f"required: {formats.asked_for(speed)}",
        ),
        nothing_is_enough=speed.required_speedup is None,
    )


def _parity(verdict: Verdict, colours: Mapping[str, str]) -> Picture | None:
    """Only where there is a number: what parity cannot tell is in the table."""
    if not any(it.parity and it.parity.worst for it in verdict.candidates):
        return None
    rows = [_parity_row(it, it.parity, colours.get(it.arm, "")) for it in verdict.candidates]
    forest = Forest(
        rows=rows,
        reference=1.0,
        reference_label="eager's rounding",
        write_limit=lambda limit: f"limit {limit:g} times",
        higher_is_better=False,
        unit="times eager's rounding, logarithmic",
        logarithmic=True,
    )
    return Picture(
        "Parity",
        "the compiled arithmetic's largest error",
        forest_chart(forest, title="Parity with eager's arithmetic", identity="forest-parity"),
    )


def _parity_row(candidate: CandidateVerdict, parity: ParityJudgement | None, colour: str) -> Row:
    if parity is None or parity.worst is None:
        told = "no compiler to compare" if parity is None else "cannot tell"
        return _empty(candidate, colour, told)
    ratio = parity.worst.ratio
    found = formats.error_ratio(ratio)
    tip = [f"{candidate.arm}: {found}", f"in {parity.worst.tensor}"]
    if parity.median_ratio is not None:
        tip.append(f"typical error: {parity.median_ratio:.3g} times")
    tip.append(f"{_counted(parity.steps, 'step')}, {parity.judged} of {parity.tensors} tensors")
    return Row(
        name=candidate.arm,
        colour=colour,
        estimate=math.inf if ratio is None else max(ratio, 1e-9),
        lower=None,
        upper=None,
        limit=parity.limit,
        outcome=formats.parity_outcome(parity),
        value=found,
        tip=tuple(tip),
    )


def _empty(candidate: CandidateVerdict, colour: str, why: str) -> Row:
    return Row(candidate.arm, colour, None, None, None, None, None, why, ())


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
