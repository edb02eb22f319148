"""The report as one HTML page that needs nothing from anywhere: no script, no font, no network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from compilegate.gate.judgements import MetricJudgement, NoiseFloor, SpeedJudgement
from compilegate.gate.observations import Observations
from compilegate.gate.quality.units import unit_of
from compilegate.gate.verdict import CandidateVerdict, Verdict
from compilegate.report import cost, formats
from compilegate.report.charts import (
    Strip,
    break_even_chart,
    interval_strip,
    loss_chart,
    step_time_chart,
)
from compilegate.report.charts.loss_curves import arm_class
from compilegate.report.glance import glance
from compilegate.report.glossary import GLOSSARY

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class _MetricView:
    judgement: MetricJudgement
    strip: Markup


@dataclass(frozen=True)
class _CandidateView:
    verdict: CandidateVerdict
    metrics: tuple[_MetricView, ...]
    """On all examples; slices are in a table."""
    slices: tuple[MetricJudgement, ...]
    speed_strip: Markup | None
    break_even: Markup | None


def render_html(verdict: Verdict, observations: Observations) -> str:
    """The whole page. Everything that comes from outside is escaped."""
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            verdict=verdict,
            observations=observations,
            candidates=[_candidate(item, verdict) for item in verdict.candidates],
            glance=glance(verdict),
            losses=loss_chart(observations, title="Training loss", identity="losses"),
            step_times=step_time_chart(observations, title="Step times", identity="step-times"),
            environment=environment_rows(observations),
            arm_colours={arm.arm: arm_class(index) for index, arm in enumerate(observations.arms)},
            glossary=GLOSSARY,
        )
    )


def environment_rows(observations: Observations) -> list[tuple[str, list[str]]]:
    """(name, one value per arm) of everything that any arm recorded about where it ran."""
    names = sorted({name for arm in observations.arms for name in arm.environment})
    return [
        (name, [arm.environment.get(name, formats.NOTHING) for arm in observations.arms])
        for name in names
    ]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("compilegate.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own: dict[str, Any] = {
        "cost_words": cost,
        "formats": formats,
        "marks": formats.MARKS,
        "unit_of": unit_of,
    }
    environment.globals.update(own)
    environment.filters["minus"] = _with_minus_signs
    return environment


def _with_minus_signs(numbers: str) -> str:
    """The text with real minus signs; the hyphens of names and dates stay."""
    return re.sub(r"(?<![^\s(])-(?=\d)", MINUS, numbers)


def _candidate(candidate: CandidateVerdict, verdict: Verdict) -> _CandidateView:
    floors = {floor.metric: floor for floor in verdict.baseline.noise_floor}
    return _CandidateView(
        verdict=candidate,
        metrics=tuple(
            _MetricView(metric, _metric_strip(candidate.arm, metric, floors.get(metric.metric)))
            for metric in candidate.metrics
            if metric.part is None
        ),
        slices=tuple(metric for metric in candidate.metrics if metric.part is not None),
        speed_strip=_speed_strip(candidate.arm, candidate.speed) if candidate.speed else None,
        break_even=_break_even(candidate.arm, candidate.speed) if candidate.speed else None,
    )


def _metric_strip(arm: str, metric: MetricJudgement, floor: NoiseFloor | None) -> Markup:
    unit = unit_of(metric.metric)
    name = formats.metric_name(metric.metric)

    def write(value: float) -> str:
        return _with_minus_signs(unit.number(value * unit.size, signed=True))

    limit = None if metric.limit is None else metric.limit / unit.size
    return interval_strip(
        Strip(
            estimate=metric.delta.estimate / unit.size,
            lower=metric.delta.lower / unit.size,
            upper=metric.delta.upper / unit.size,
            limit=limit,
            limit_label="" if limit is None else f"margin {write(limit)}",
            reference=0.0,
            reference_label="no difference",
            higher_is_better=metric.direction == "higher",
            unit=unit.name or "the metric's own unit",
            outcome=metric.outcome or formats.WATCHED,
            write=write,
            noise=floor.seed_sd / unit.size if floor else None,
        ),
        title=f"{name}: {arm} against the baseline",
        description=(
            f"{unit.amount(metric.delta.estimate, signed=True)}, interval from "
            f"{unit.number(metric.delta.lower, signed=True)} to "
            f"{unit.number(metric.delta.upper, signed=True)}; "
            f"{formats.margin_in_words(metric)}."
        ),
        identity=f"{arm}-{metric.metric}",
    )


def _speed_strip(arm: str, speed: SpeedJudgement) -> Markup:
    interval = speed.speedup
    limit = speed.required_speedup
    return interval_strip(
        Strip(
            estimate=interval.estimate,
            lower=interval.lower,
            upper=interval.upper,
            limit=limit,
            limit_label=f"required {formats.times(limit)}" if limit else "no speed-up is enough",
            nothing_is_enough=limit is None,
            reference=1.0,
            reference_label="same speed",
            higher_is_better=True,
            unit="times the baseline's samples per second",
            outcome=speed.outcome,
            write=formats.times,
        ),
        title=f"Speed-up of {arm}",
        description=(
            f"{interval.estimate:.2f} times, interval from {interval.lower:.2f} to "
            f"{interval.upper:.2f}; required: {formats.asked_for(speed)}."
        ),
        identity=f"{arm}-speed",
    )


def _break_even(arm: str, speed: SpeedJudgement) -> Markup | None:
    return break_even_chart(
        speed, title=f"Compile time against time saved, {arm}", identity=f"{arm}-break-even"
    )
