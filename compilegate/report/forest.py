"""What was compared, as pictures: intervals against their limits, a row for each candidate.

One picture for each metric, for speed and for parity. Better is always to the right; what is not
acceptable is shaded. The words are the summary's. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from compilegate.gate.findings import Outcome
from compilegate.gate.metrics import unit_of
from compilegate.gate.verdict import CandidateVerdict, Verdict
from compilegate.report import formats
from compilegate.report.summary import (
    NOT_JUDGED,
    Cell,
    compared,
    metric_cell,
    on_all_examples,
    parity_cell,
    speed_cell,
)
from compilegate.report.svg import (
    WIDTH,
    Scale,
    chart,
    element,
    line,
    polyline,
    rectangle,
    spread,
    text,
    tick_text,
    with_minus_signs,
)

_TOP = 34.0
_LEFT, _RIGHT = 8.0, WIDTH - 8.0
_ROW, _BAR = 46.0, 30.0
"""A row's height, and how far below its top the interval lies."""
_LINE = 14.0
"""Added height where a name and its numbers need two lines."""
_CAP = 5.0
_MOST_CHARACTERS = 48
"""Characters of a name and its numbers on one line of a narrow screen."""
_CHARACTER = 7.2
"""Roughly how wide a character is, on a narrow screen."""


@dataclass(frozen=True)
class Row:
    """One candidate, in the units of the axis."""

    name: str
    cell: Cell
    """What is written in the row."""
    estimate: float | None = None
    """Position; None without anything to draw, infinite beyond the scale."""
    bounds: tuple[float, float] | None = None
    """Bounds; None for an estimate without an interval."""
    limit: float | None = None
    """The limit of what is acceptable; None if nothing is required; infinite where no value is
    enough."""

    @property
    def value(self) -> str:
        """The numbers in the row's corner."""
        cell = self.cell
        return with_minus_signs(f"{cell.value} ({cell.interval})" if cell.interval else cell.value)


@dataclass(frozen=True)
class Forest:
    """The picture of one thing that was compared."""

    name: str
    detail: str
    """What stands above it."""
    identity: str
    """Unique on a page: its chart's."""
    rows: Sequence[Row]
    reference: float
    """The value that stands for "no difference"."""
    reference_label: str
    limit_label: str
    """What stands over the limit, where all rows have the same."""
    unit: str
    higher_is_better: bool = True
    noise: float = 0.0
    """Half-width of the band around the reference that chance alone covers."""
    logarithmic: bool = False

    @property
    def open(self) -> bool:
        """Whether it shows what is not decided, or was decided against a candidate."""
        return any(row.cell.outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE} for row in self.rows)

    def chart(self, colours: Mapping[str, str]) -> Markup:
        """The picture itself: each candidate's interval as a bar with its estimate and limit, in
        the arm's colour."""
        longest = max((len(row.name) + len(row.value) for row in self.rows), default=0)
        more = _LINE if longest > _MOST_CHARACTERS else 0.0
        scale, bottom = _scale(self), _TOP + len(self.rows) * (_ROW + more)
        grounds: list[Markup] = []
        rows: list[Markup] = []
        for index, row in enumerate(self.rows):
            top, colour = _TOP + index * (_ROW + more), colours.get(row.name, "")
            grounds += _ground(row, top + more, scale)
            if index:
                grounds.append(line(_LEFT, top, _RIGHT, top, "grid"))
            rows += _words(row, top, more, colour)
            if row.estimate is not None:
                rows.append(_bar(row, row.estimate, top + more + _BAR, scale, colour))
        return chart(
            *(*grounds, *_lines(self, scale, bottom), *_axis(self, scale, bottom), *rows),
            height=bottom + 36,
            title=f"{self.name}, {self.detail}",
            description=". ".join(f"{row.name}: {row.value}" for row in self.rows) + ".",
            identity=f"forest-{self.identity}",
        )


def _scale(forest: Forest) -> Scale:
    rows = [row for row in forest.rows if row.estimate is not None]
    core = [row.estimate for row in rows if row.estimate is not None]
    core += [row.limit for row in rows if row.limit is not None]
    core += [forest.reference - forest.noise, forest.reference + forest.noise]
    finite = [value for value in core if math.isfinite(value)]
    low, high = spread(min(finite), max(finite))
    ends = (_LEFT, _RIGHT) if forest.higher_is_better else (_RIGHT, _LEFT)
    if forest.logarithmic:
        return Scale(max(low, 1e-9) / 2.0, high * 2.0, *ends, logarithmic=True)
    # An interval that is far wider than all that matters runs out of the picture, with an arrow.
    intervals = [row.bounds for row in rows if row.bounds is not None]
    far = 2.0 * max(high - low, min((upper - lower for lower, upper in intervals), default=0.0))
    bounds = [bound for interval in intervals for bound in interval]
    low, high = max(min([low, *bounds]), low - far), min(max([high, *bounds]), high + far)
    room = (high - low) * 0.08
    return Scale(low - room, high + room, *ends)


def _ground(row: Row, top: float, scale: Scale) -> list[Markup]:
    """What of a row is not acceptable."""
    if row.limit is None:
        return []
    end, begin, high = scale(row.limit), top + 16, _ROW - 20
    bad = rectangle(_LEFT, begin, end - _LEFT, high, "zone-bad")
    if math.isinf(row.limit):
        return [bad]
    return [bad, line(end, begin - 2, end, begin + high + 2, "limit")]


def _lines(forest: Forest, scale: Scale, bottom: float) -> list[Markup]:
    """The line of the reference over the band of chance; above, its name and the one limit's.

    Where candidates have limits of their own, the table has their numbers."""
    x = scale(forest.reference)
    drawn = [line(x, _TOP - 6, x, bottom, "reference")]
    if forest.noise:
        ends = sorted(scale(forest.reference + sign * forest.noise) for sign in (-1.0, 1.0))
        drawn.insert(0, rectangle(ends[0], _TOP, ends[1] - ends[0], bottom - _TOP, "zone-noise"))
    drawn.append(_label(x, _TOP - 9, forest.reference_label, "label"))
    limits = {row.limit for row in forest.rows if row.limit is not None}
    if len(limits) == 1:
        drawn.append(_label(scale(limits.pop()), 12, forest.limit_label, "limit-label"))
    return drawn


def _label(x: float, y: float, content: str, kind: str) -> Markup:
    """A label above its line, within the chart."""
    half = _CHARACTER * len(content) / 2
    return text(min(max(x, _LEFT + half), _RIGHT - half), y, content, kind)


def _axis(forest: Forest, scale: Scale, bottom: float) -> list[Markup]:
    drawn = [line(_LEFT, bottom, _RIGHT, bottom, "axis")]
    for tick in scale.ticks():
        x = scale(tick)
        drawn.append(line(x, bottom, x, bottom + 4, "axis"))
        if 20.0 < x < WIDTH - 20.0:
            drawn.append(text(x, bottom + 15, tick_text(tick), "tick"))
    drawn.append(text(_LEFT, bottom + 31, "\N{LEFTWARDS ARROW} worse", "hint", "start"))
    drawn.append(text(WIDTH / 2, bottom + 31, forest.unit, "hint"))
    drawn.append(text(_RIGHT, bottom + 31, "better \N{RIGHTWARDS ARROW}", "hint", "end"))
    return drawn


def _words(row: Row, top: float, more: float, colour: str) -> list[Markup]:
    """The name, and the numbers beside or below it."""
    outcome = formats.NOTE if row.cell.outcome is None else row.cell.outcome
    mark = "" if row.cell == NOT_JUDGED else f"{formats.MARKS[outcome]} "
    return [
        rectangle(_LEFT, top + 5, 8, 8, f"swatch {colour}"),
        text(_LEFT + 13, top + 13, row.name, "number", "start"),
        element(
            "text",
            element("tspan", mark, class_=f"outcome {outcome}"),
            row.value,
            x=_RIGHT,
            y=top + more + 13,
            class_="number strong" if row.estimate is not None else "label",
            text_anchor="end",
        ),
    ]


def _bar(row: Row, estimate: float, y: float, scale: Scale, colour: str) -> Markup:
    """The interval and its estimate at this height, with all numbers in the browser's own tip."""
    tip = with_minus_signs(f"{row.name}: {row.cell.text}")
    drawn = [element("title", tip), rectangle(_LEFT, y - 14, _RIGHT - _LEFT, 26, "target")]
    if row.bounds is not None:
        left, right = sorted(map(scale, row.bounds))
        drawn.append(line(left, y, right, y, f"interval {colour}"))
        drawn += [_end(scale, bound, y, colour) for bound in row.bounds]
    drawn.append(element("circle", cx=scale(estimate), cy=y, r=5, class_=f"estimate {colour}"))
    return element("g", *drawn, class_="mark")


def _end(scale: Scale, bound: float, y: float, colour: str) -> Markup:
    """A cap; an arrow where the interval goes on beyond the picture."""
    x = scale(bound)
    if scale.low <= bound <= scale.high:
        return line(x, y - _CAP, x, y + _CAP, f"interval {colour}")
    way = -1.0 if x < WIDTH / 2 else 1.0
    corners = [(x + 7 * way, y), (x - 3 * way, y - 6), (x - 3 * way, y + 6)]
    return polyline(corners, f"beyond {colour}", "polygon")


# The pictures of a verdict.


def pictures(verdict: Verdict) -> list[Forest]:
    """A picture for each comparison; those that decided against a candidate first."""
    drawn = [_metric(verdict, name) for name in compared(verdict)]
    if any(it.speed for it in verdict.candidates):
        drawn.append(_speed(verdict))
    # What parity cannot tell has no number, and stands in the table.
    if any(it.parity and it.parity.worst for it in verdict.candidates):
        drawn.append(_parity(verdict))
    return sorted(drawn, key=lambda forest: not forest.open)


def _metric(verdict: Verdict, name: str) -> Forest:
    unit = unit_of(name)
    judged = [on_all_examples(it, name) for it in verdict.candidates]
    first = next(one for one in judged if one is not None)
    floor = next((one for one in verdict.baseline.noise_floor if one.metric == name), None)
    baseline = formats.metric_value(name, first.baseline)
    more = "" if first.margin is not None else "; watched, decides nothing"
    if first.constant is not None:
        more += f"; a constant prediction reaches {formats.metric_value(name, first.constant)}"
    return Forest(
        name=formats.metric_name(name),
        detail=f"difference from the baseline's {baseline}{more}",
        identity=name,
        rows=[_metric_row(it, name) for it in verdict.candidates],
        reference=0.0,
        reference_label="no difference",
        limit_label=with_minus_signs(metric_cell(first).limit),
        higher_is_better=first.direction == "higher",
        unit=unit.name or "the metric's own unit",
        noise=floor.seed_sd / unit.size if floor else 0.0,
    )


def _metric_row(candidate: CandidateVerdict, name: str) -> Row:
    metric, size = on_all_examples(candidate, name), unit_of(name).size
    if metric is None:
        return Row(candidate.arm, NOT_JUDGED)
    delta, limit = metric.delta, None if metric.limit is None else metric.limit / size
    bounds = (delta.lower / size, delta.upper / size)
    return Row(candidate.arm, metric_cell(metric), delta.estimate / size, bounds, limit)


def _speed(verdict: Verdict) -> Forest:
    measured = [it.speed for it in verdict.candidates if it.speed is not None]
    rate = formats.rate(measured[0].baseline_samples_per_second)
    return Forest(
        name="Speed-up",
        detail=f"over the baseline's {rate} samples/s",
        identity="speed",
        rows=[_speed_row(it) for it in verdict.candidates],
        reference=1.0,
        reference_label="same speed",
        limit_label=formats.required(measured[0].required_speedup),
        unit="times the baseline's samples per second",
    )


def _speed_row(candidate: CandidateVerdict) -> Row:
    speed, cell = candidate.speed, speed_cell(candidate)
    if speed is None:
        return Row(candidate.arm, cell)
    found, limit = speed.speedup, speed.required_speedup
    bounds = (found.lower, found.upper)
    return Row(candidate.arm, cell, found.estimate, bounds, math.inf if limit is None else limit)


def _parity(verdict: Verdict) -> Forest:
    cells = map(parity_cell, verdict.candidates)
    return Forest(
        name="Parity",
        detail="the compiled arithmetic's largest error",
        identity="parity",
        rows=[_parity_row(it) for it in verdict.candidates],
        reference=1.0,
        reference_label="eager's rounding",
        limit_label=next((cell.limit for cell in cells if cell.limit), ""),
        higher_is_better=False,
        unit="times eager's rounding, logarithmic",
        logarithmic=True,
    )


def _parity_row(candidate: CandidateVerdict) -> Row:
    parity, cell = candidate.parity, parity_cell(candidate)
    if parity is None or parity.worst is None:
        return Row(candidate.arm, cell)
    ratio = parity.worst.ratio
    estimate = math.inf if ratio is None else max(ratio, 1e-9)
    return Row(candidate.arm, cell, estimate, limit=parity.limit)
