"""What was compared, as pictures: intervals against their limits, a row for each candidate.

One picture for each metric, for speed and for parity. Better is always to the right; what is not
acceptable is shaded. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from compilegate.gate.findings import Outcome
from compilegate.gate.metrics import unit_of
from compilegate.gate.verdict import CandidateVerdict, Verdict
from compilegate.report import formats
from compilegate.report.details import required
from compilegate.report.summary import compared, on_all_examples
from compilegate.report.svg import (
    WIDTH,
    Mark,
    Scale,
    chart,
    circle,
    element,
    fitting,
    line,
    polygon,
    rectangle,
    spread,
    text,
    tick_text,
    with_minus_signs,
)

_TOP = 22.0
_LEFT, _RIGHT = 8.0, WIDTH - 8.0
_ROW, _BAR = 46.0, 30.0
"""A row's height, and how far below its top the interval lies."""
_LINE = 14.0
"""By how much both grow where a name and its numbers do not fit on one line."""
_CAP = 5.0
LONGEST_NAME = 50
_MOST_CHARACTERS: Final = 48
"""That a name and its numbers may have together, on one line of a narrow screen."""
_CHARACTER: Final = 7.2
"""Roughly how wide a character is, on a narrow screen."""


@dataclass(frozen=True)
class Row:
    """One candidate, in the units of the axis."""

    name: str
    value: str
    """The numbers in the row's corner."""
    estimate: float | None = None
    """None where there is nothing to draw; `value` then says why. Infinite: beyond the scale."""
    lower: float | None = None
    upper: float | None = None
    """None where there is an estimate without an interval."""
    limit: float | None = None
    """The limit of what is acceptable; None if nothing is required."""
    outcome: str | None = None
    tip: tuple[str, ...] = ()
    nothing_is_enough: bool = False
    """Whether no value at all would do; `limit` is then None."""


@dataclass(frozen=True)
class Forest:
    """The picture of one thing that was compared."""

    name: str
    detail: str
    """What stands above it."""
    title: str
    identity: str
    """Unique on a page: its chart's."""
    colours: Mapping[str, str]
    """By arm."""
    rows: Sequence[Row]
    reference: float
    """The value that stands for "no difference"."""
    reference_label: str
    write_limit: Callable[[float], str]
    higher_is_better: bool
    unit: str
    noise: float = 0.0
    """Half-width of the band around the reference that chance alone covers."""
    logarithmic: bool = False
    nothing_label: str = ""
    """What is said where no value at all would do."""

    @property
    def chart(self) -> Markup:
        """The picture itself."""
        return _chart(self)

    @property
    def open(self) -> bool:
        """Whether it shows what is not decided, or was decided against a candidate."""
        return any(row.outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE} for row in self.rows)

    @property
    def more(self) -> float:
        """What rows need beyond one line of words."""
        most = max((len(row.name) + len(row.value) for row in self.rows), default=0)
        return _LINE if most > _MOST_CHARACTERS else 0.0

    def top(self, index: int) -> float:
        """Where a row begins; that of the row after the last is where all end."""
        return _TOP + index * (_ROW + self.more)


def _chart(forest: Forest) -> Markup:
    """Each candidate's interval as a bar with its estimate and its limit."""
    scale = _scale(forest)
    bottom = forest.top(len(forest.rows))
    rows = [(row, forest.top(index)) for index, row in enumerate(forest.rows)]
    return chart(
        *(part for row, top in rows for part in _ground(row, top, scale, forest.more)),
        *_reference(forest, scale, bottom),
        *_limits(forest, scale),
        *_axis(forest, scale, bottom),
        *(part for row, top in rows for part in _words(forest, row, top)),
        marks=[
            _mark(row, top + forest.more + _BAR, scale, forest.colours.get(row.name, ""))
            for row, top in rows
            if row.estimate is not None
        ],
        height=bottom + 36,
        title=forest.title,
        description=". ".join(f"{row.name}: {row.value}" for row in forest.rows) + ".",
        identity=f"forest-{forest.identity}",
    )


def _scale(forest: Forest) -> Scale:
    rows = [row for row in forest.rows if row.estimate is not None]
    core = [row.estimate for row in rows if row.estimate is not None and row.estimate < 1e300]
    core += [row.limit for row in rows if row.limit is not None]
    core += [forest.reference - forest.noise, forest.reference + forest.noise]
    low, high = spread(min(core), max(core))
    ends = (_LEFT, _RIGHT) if forest.higher_is_better else (_RIGHT, _LEFT)
    if forest.logarithmic:
        return Scale(max(low, 1e-9) / 2.0, high * 2.0, *ends, logarithmic=True)
    # An interval that is far wider than all that matters runs out of the picture, with an arrow.
    widths = [row.upper - row.lower for row in rows if None not in {row.upper, row.lower}]  # pyrefly: ignore[unsupported-operation]
    far = 2.0 * max(high - low, min(widths, default=0.0))
    bounds = [bound for row in rows for bound in (row.lower, row.upper) if bound is not None]
    low, high = max(min([low, *bounds]), low - far), min(max([high, *bounds]), high + far)
    room = (high - low) * 0.08
    return Scale(low - room, high + room, *ends)


def _reference(forest: Forest, scale: Scale, bottom: float) -> list[Markup]:
    """Its line, over the band of what chance alone covers."""
    x = scale(forest.reference)
    drawn = [line(x, _TOP - 4, x, bottom, "reference")]
    if forest.noise:
        ends = sorted(scale(forest.reference + sign * forest.noise) for sign in (-1.0, 1.0))
        drawn.insert(0, rectangle(ends[0], _TOP, ends[1] - ends[0], bottom - _TOP, "zone-noise"))
    return drawn


def _ground(row: Row, top: float, scale: Scale, more: float) -> list[Markup]:
    """What of a row is not acceptable, and the line that parts it from the next."""
    drawn = [line(_LEFT, top, _RIGHT, top, "grid")] if top > _TOP else []
    begin, high = top + more + 16, _ROW - 20
    if row.nothing_is_enough:
        drawn.append(rectangle(_LEFT, begin, _RIGHT - _LEFT, high, "zone-bad"))
    if row.limit is not None:
        drawn.append(rectangle(_LEFT, begin, scale(row.limit) - _LEFT, high, "zone-bad"))
        drawn.append(line(scale(row.limit), begin - 2, scale(row.limit), begin + high + 2, "limit"))
    return drawn


def _limits(forest: Forest, scale: Scale) -> list[Markup]:
    """The names of the two lines: outward of both, so that they never meet."""
    limits = {row.limit for row in forest.rows if row.limit is not None}
    reference, name = scale(forest.reference), forest.reference_label
    if not limits and any(row.nothing_is_enough for row in forest.rows):
        side, end = (-1, _RIGHT) if reference < WIDTH / 2 else (1, _LEFT)
        nothing = _label(end, forest.nothing_label, "limit-label", side)
        return [_label(reference, name, "label", 0), nothing]
    if len(limits) != 1:
        return [_label(reference, name, "label", 0)]  # each row says its own limit
    value = next(iter(limits))
    limit, words = scale(value), forest.write_limit(value)
    if abs(limit - reference) < 1.0:
        return [_label(limit, words, "limit-label", 0)]
    side = -1 if limit < reference else 1
    # The outer of the two at its line, the inner one where that leaves it room.
    wide = _CHARACTER * len(name)
    away = min(limit, _RIGHT - wide - 6) if side < 0 else max(limit, _LEFT + wide + 6)
    return [_label(away, words, "limit-label", side), _label(reference, name, "label", -side)]


def _label(x: float, content: str, kind: str, side: int) -> Markup:
    """To the left (-1) or to the right (1) of its line, or over it; always within the chart."""
    wide = _CHARACTER * len(content)
    if side == 0:
        middle = min(max(x, _LEFT + wide / 2), _RIGHT - wide / 2)
        return text(middle, _TOP - 9, content, kind)
    if side < 0:
        return text(max(x, _LEFT + wide), _TOP - 9, content, kind, "end")
    return text(min(x, _RIGHT - wide), _TOP - 9, content, kind, "start")


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


def _words(forest: Forest, row: Row, top: float) -> list[Markup]:
    mark = "" if row.outcome is None else f"{formats.MARKS[row.outcome]} "
    return [
        rectangle(_LEFT, top + 5, 8, 8, f"swatch {forest.colours.get(row.name, '')}"),
        text(_LEFT + 13, top + 13, fitting(row.name, LONGEST_NAME), "number", "start"),
        element(
            "text",
            element("tspan", mark, class_=f"outcome {row.outcome}"),
            row.value,
            x=_RIGHT,
            y=top + forest.more + 13,
            class_="number strong" if row.estimate is not None else "label",
            text_anchor="end",
        ),
    ]


def _mark(row: Row, y: float, scale: Scale, colour: str) -> Mark:
    """`y` is where the interval lies."""
    assert row.estimate is not None  # noqa: S101 - rows without one are left out
    x = scale(row.estimate)
    drawn = [rectangle(_LEFT, y - 14, _RIGHT - _LEFT, 26, "target")]
    if row.lower is not None and row.upper is not None:
        left, right = sorted((scale(row.lower), scale(row.upper)))
        drawn.append(line(left, y, right, y, f"interval {colour}"))
        for bound in (row.lower, row.upper):
            drawn.append(_end(scale, bound, y, colour))
    drawn.append(circle(x, y, 5.0, f"estimate {colour}"))
    return Mark(Markup("").join(drawn), row.tip, x, y - 4)


def _end(scale: Scale, bound: float, y: float, colour: str) -> Markup:
    """A cap; an arrow where the interval goes on beyond the picture."""
    x = scale(bound)
    if scale.low <= bound <= scale.high:
        return line(x, y - _CAP, x, y + _CAP, f"interval {colour}")
    way = -1.0 if x < WIDTH / 2 else 1.0
    return polygon(
        [(x + 7 * way, y), (x - 3 * way, y - 6), (x - 3 * way, y + 6)], f"beyond {colour}"
    )


# The pictures of a verdict.


def pictures(verdict: Verdict, colours: Mapping[str, str]) -> list[Forest]:
    """One picture for each thing that was compared; first those that decided against something."""
    drawn = [_metric(verdict, name, colours) for name in compared(verdict)]
    if any(it.speed for it in verdict.candidates):
        drawn.append(_speed(verdict, colours))
    # What parity cannot tell has no number, and stands in the table.
    if any(it.parity and it.parity.worst for it in verdict.candidates):
        drawn.append(_parity(verdict, colours))
    return sorted(drawn, key=lambda forest: not forest.open)


def _metric(verdict: Verdict, name: str, colours: Mapping[str, str]) -> Forest:
    unit, shown = unit_of(name), formats.metric_name(name)
    judged = [on_all_examples(it, name) for it in verdict.candidates]
    first = next(one for one in judged if one is not None)
    floor = next((one for one in verdict.baseline.noise_floor if one.metric == name), None)
    watched = "" if first.margin is not None else "; watched, decides nothing"
    baseline = formats.metric_value(name, first.baseline)
    return Forest(
        name=shown,
        detail=f"difference from the baseline's {baseline}{watched}",
        colours=colours,
        title=f"{shown} against the baseline",
        identity=name,
        rows=[_metric_row(it, name) for it in verdict.candidates],
        reference=0.0,
        reference_label="no difference",
        write_limit=lambda limit: with_minus_signs(
            f"margin {unit.number(limit * unit.size, signed=True)}"
        ),
        higher_is_better=first.direction == "higher",
        unit=unit.name or "the metric's own unit",
        noise=floor.seed_sd / unit.size if floor else 0.0,
    )


def _metric_row(candidate: CandidateVerdict, name: str) -> Row:
    metric = on_all_examples(candidate, name)
    if metric is None:
        return Row(candidate.arm, "not compared")
    unit, bounds = unit_of(name), formats.bounds(metric)
    values = (formats.metric_value(name, it) for it in (metric.candidate, metric.baseline))
    margin = "only watched"
    if metric.limit is not None:
        margin = f"margin {unit.amount(metric.limit, signed=True)}"
    evidence = (formats.counted(metric.seeds, "seed"), formats.counted(metric.examples, "example"))
    tip = (
        f"{candidate.arm}: {' against '.join(values)}",
        f"{formats.difference(metric)}, interval {bounds}",
        margin,
        ", ".join(evidence),
    )
    return Row(
        name=candidate.arm,
        value=with_minus_signs(f"{unit.number(metric.delta.estimate, signed=True)} ({bounds})"),
        estimate=metric.delta.estimate / unit.size,
        lower=metric.delta.lower / unit.size,
        upper=metric.delta.upper / unit.size,
        limit=None if metric.limit is None else metric.limit / unit.size,
        outcome=metric.outcome or formats.WATCHED,
        tip=tuple(map(with_minus_signs, tip)),
    )


def _speed(verdict: Verdict, colours: Mapping[str, str]) -> Forest:
    measured = [it.speed for it in verdict.candidates if it.speed is not None]
    own_limit = len({speed.required_speedup for speed in measured}) > 1
    rate = formats.rate(measured[0].baseline_samples_per_second)
    return Forest(
        name="Speed-up",
        detail=f"over the baseline's {rate} samples/s",
        colours=colours,
        title="Speed-up over the baseline",
        identity="speed",
        rows=[_speed_row(it, own_limit=own_limit) for it in verdict.candidates],
        reference=1.0,
        reference_label="same speed",
        write_limit=lambda limit: f"required {formats.times(limit)}",
        higher_is_better=True,
        unit="times the baseline's samples per second",
        nothing_label="no speed-up is enough",
    )


def _speed_row(candidate: CandidateVerdict, *, own_limit: bool) -> Row:
    speed = candidate.speed
    if speed is None:
        return Row(candidate.arm, "not measured")
    interval, limit = speed.speedup, speed.required_speedup
    bounds = f"{interval.lower:.2f} to {interval.upper:.2f}"
    needs = ", none is enough" if limit is None else f", needs {formats.times(limit)}"
    rates = (speed.candidate_samples_per_second, speed.baseline_samples_per_second)
    return Row(
        name=candidate.arm,
        value=f"{formats.times(interval.estimate)} ({bounds}){needs if own_limit else ''}",
        estimate=interval.estimate,
        lower=interval.lower,
        upper=interval.upper,
        limit=limit,
        outcome=speed.outcome,
        tip=(
            f"{candidate.arm}: {formats.times(interval.estimate)}, interval {bounds}",
            f"{' against '.join(map(formats.rate, rates))} samples/s",
            f"required: {required(speed)}",
        ),
        nothing_is_enough=limit is None,
    )


def _parity(verdict: Verdict, colours: Mapping[str, str]) -> Forest:
    return Forest(
        name="Parity",
        detail="the compiled arithmetic's largest error",
        colours=colours,
        title="Parity with eager's arithmetic",
        identity="parity",
        rows=[_parity_row(it) for it in verdict.candidates],
        reference=1.0,
        reference_label="eager's rounding",
        write_limit=lambda limit: f"limit {limit:g} times",
        higher_is_better=False,
        unit="times eager's rounding, logarithmic",
        logarithmic=True,
    )


def _parity_row(candidate: CandidateVerdict) -> Row:
    parity = candidate.parity
    if parity is None or parity.worst is None:
        return Row(candidate.arm, "no compiler to compare" if parity is None else "cannot tell")
    ratio = parity.worst.ratio
    tip = [f"{candidate.arm}: {formats.error_ratio(ratio)}", f"in {parity.worst.tensor}"]
    if parity.median_ratio is not None:
        tip.append(f"typical error: {parity.median_ratio:.3g} times")
    steps = formats.counted(parity.steps, "step")
    return Row(
        name=candidate.arm,
        value=formats.error_ratio(ratio),
        estimate=math.inf if ratio is None else max(ratio, 1e-9),
        limit=parity.limit,
        outcome=formats.parity_outcome(parity),
        tip=(*tip, f"{steps}, {parity.judged} of {parity.tensors} tensors"),
    )
