"""Intervals against their limits, a row for each candidate, all on one scale.

Better is always to the right; what is not acceptable is shaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from compilegate.report import formats
from compilegate.report.charts.scale import Scale, spread, tick_text
from compilegate.report.charts.svg import (
    WIDTH,
    Mark,
    chart,
    circle,
    element,
    fitting,
    line,
    polygon,
    rectangle,
    text,
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
    colour: str
    estimate: float | None
    """None where there is nothing to draw; `value` then says why. Infinite: beyond the scale."""
    lower: float | None
    upper: float | None
    """None where there is an estimate without an interval."""
    limit: float | None
    """The limit of what is acceptable; None if nothing is required."""
    outcome: str | None
    value: str
    """The numbers in the row's corner."""
    tip: tuple[str, ...]
    nothing_is_enough: bool = False
    """Whether no value at all would do; `limit` is then None."""


@dataclass(frozen=True)
class Forest:
    """One thing that was compared."""

    rows: Sequence[Row]
    reference: float | None
    """The value that stands for "no difference"."""
    reference_label: str
    write_limit: Callable[[float], str]
    higher_is_better: bool
    unit: str
    noise: float | None = None
    """Half-width of the band around the reference that chance alone covers."""
    logarithmic: bool = False
    nothing_label: str = ""
    """What is said where no value at all would do."""

    @property
    def more(self) -> float:
        """What rows need beyond one line of words."""
        most = max((len(row.name) + len(row.value) for row in self.rows), default=0)
        return _LINE if most > _MOST_CHARACTERS else 0.0

    def top(self, index: int) -> float:
        """Where a row begins; that of the row after the last is where all end."""
        return _TOP + index * (_ROW + self.more)


def forest_chart(forest: Forest, *, title: str, identity: str) -> Markup:
    """Each candidate's interval as a bar with its estimate and its limit."""
    scale = _scale(forest)
    bottom = forest.top(len(forest.rows))
    rows = [(row, forest.top(index)) for index, row in enumerate(forest.rows)]
    return chart(
        *_noise(forest, scale, bottom),
        *(part for row, top in rows for part in _ground(row, top, scale, forest.more)),
        *_reference(forest, scale, bottom),
        *_limits(forest, scale),
        *_axis(forest, scale, bottom),
        *(part for row, top in rows for part in _words(row, top, forest.more)),
        marks=[
            _mark(row, top + forest.more + _BAR, scale)
            for row, top in rows
            if row.estimate is not None
        ],
        height=bottom + 36,
        title=title,
        description=". ".join(f"{row.name}: {row.value}" for row in forest.rows) + ".",
        identity=identity,
    )


def _scale(forest: Forest) -> Scale:
    rows = [row for row in forest.rows if row.estimate is not None]
    core = [row.estimate for row in rows if row.estimate is not None and row.estimate < 1e300]
    core += [row.limit for row in rows if row.limit is not None]
    if forest.reference is not None:
        noise = forest.noise or 0.0
        core += [forest.reference - noise, forest.reference + noise]
    low, high = spread(min(core), max(core)) if core else (0.0, 1.0)
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


def _noise(forest: Forest, scale: Scale, bottom: float) -> list[Markup]:
    if not forest.noise or forest.reference is None:
        return []
    ends = sorted(scale(forest.reference + sign * forest.noise) for sign in (-1.0, 1.0))
    return [rectangle(ends[0], _TOP, ends[1] - ends[0], bottom - _TOP, "zone-noise")]


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


def _reference(forest: Forest, scale: Scale, bottom: float) -> list[Markup]:
    if forest.reference is None:
        return []
    x = scale(forest.reference)
    return [line(x, _TOP - 4, x, bottom, "reference")]


def _limits(forest: Forest, scale: Scale) -> list[Markup]:
    """The names of the two lines: outward of both, so that they never meet."""
    limits = {row.limit for row in forest.rows if row.limit is not None}
    reference = None if forest.reference is None else scale(forest.reference)
    if not limits and reference is not None and any(row.nothing_is_enough for row in forest.rows):
        right = reference < WIDTH / 2
        return [
            _label(reference, forest.reference_label, "label", 0),
            _label(
                _RIGHT if right else _LEFT, forest.nothing_label, "limit-label", -1 if right else 1
            ),
        ]
    if len(limits) != 1:
        # Each row says its own.
        return [] if reference is None else [_label(reference, forest.reference_label, "label", 0)]
    value = next(iter(limits))
    limit, words = scale(value), forest.write_limit(value)
    if reference is None or abs(limit - reference) < 1.0:
        return [_label(limit, words, "limit-label", 0)]
    side = -1 if limit < reference else 1
    # The outer of the two at its line, the inner one where that leaves it room.
    wide = _CHARACTER * len(forest.reference_label)
    away = min(limit, _RIGHT - wide - 6) if side < 0 else max(limit, _LEFT + wide + 6)
    return [
        _label(away, words, "limit-label", side),
        _label(reference, forest.reference_label, "label", -side),
    ]


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


def _words(row: Row, top: float, more: float) -> list[Markup]:
    mark = "" if row.outcome is None else f"{formats.MARKS[row.outcome]} "
    return [
        rectangle(_LEFT, top + 5, 8, 8, f"swatch {row.colour}"),
        text(_LEFT + 13, top + 13, fitting(row.name, LONGEST_NAME), "number", "start"),
        element(
            "text",
            element("tspan", mark, class_=f"outcome {row.outcome}"),
            row.value,
            x=_RIGHT,
            y=top + more + 13,
            class_="number strong" if row.estimate is not None else "label",
            text_anchor="end",
        ),
    ]


def _mark(row: Row, y: float, scale: Scale) -> Mark:
    """`y` is where the interval lies."""
    assert row.estimate is not None  # noqa: S101 - rows without one are left out
    x = scale(row.estimate)
    drawn = [rectangle(_LEFT, y - 14, _RIGHT - _LEFT, 26, "target")]
    if row.lower is not None and row.upper is not None:
        left, right = sorted((scale(row.lower), scale(row.upper)))
        drawn.append(line(left, y, right, y, f"interval {row.colour}"))
        for bound in (row.lower, row.upper):
            drawn.append(_end(scale, bound, y, row.colour))
    drawn.append(circle(x, y, 5.0, f"estimate {row.colour}"))
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
