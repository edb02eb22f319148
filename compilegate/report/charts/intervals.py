"""An interval against its limit: where the estimate lies, and what the evidence leaves open.

Better is always to the right; what is not acceptable is shaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from compilegate.report.charts.scale import Scale, spread, tick_text
from compilegate.report.charts.svg import WIDTH, chart, circle, line, rectangle, text

HEIGHT = 106
_TOP, _BAR, _AXIS = 20.0, 50.0, 76.0
_CAP = 6.0


@dataclass(frozen=True)
class Strip:
    """What is drawn, in the units of the axis."""

    estimate: float
    lower: float
    upper: float
    limit: float | None
    """The limit of what is acceptable; None if nothing is required."""
    limit_label: str
    reference: float
    """The value that stands for "no difference"."""
    reference_label: str
    higher_is_better: bool
    unit: str
    outcome: str
    write: Callable[[float], str]
    nothing_is_enough: bool = False
    """Whether no value at all would do; `limit` is then None, and its label says so."""
    noise: float | None = None
    """Half-width of the band around the reference that chance alone covers."""


def interval_strip(strip: Strip, *, title: str, description: str, identity: str) -> Markup:
    """The interval as a bar with its estimate, the limit, and the reference."""
    scale = _scale(strip)
    return chart(
        *_zones(strip, scale),
        *_axis(strip, scale),
        *_marks(strip, scale),
        *_interval(strip, scale),
        height=HEIGHT,
        title=title,
        description=description,
        identity=identity,
    )


def _scale(strip: Strip) -> Scale:
    noise = strip.noise or 0.0
    shown = (
        strip.lower,
        strip.upper,
        strip.reference if strip.limit is None else strip.limit,
        strip.reference - noise,
        strip.reference + noise,
    )
    low, high = spread(min(shown), max(shown))
    room = (high - low) * 0.22
    ends = (8.0, WIDTH - 8.0) if strip.higher_is_better else (WIDTH - 8.0, 8.0)
    return Scale(low - room, high + room, *ends)


def _zones(strip: Strip, scale: Scale) -> list[Markup]:
    height = _AXIS - _TOP
    zones = []
    if strip.nothing_is_enough:
        zones.append(rectangle(8.0, _TOP, WIDTH - 16.0, height, "zone-bad"))
    if strip.limit is not None:
        zones.append(rectangle(8.0, _TOP, scale(strip.limit) - 8.0, height, "zone-bad"))
    if strip.noise:
        ends = sorted((scale(strip.reference - strip.noise), scale(strip.reference + strip.noise)))
        zones.append(rectangle(ends[0], _TOP, ends[1] - ends[0], height, "zone-noise"))
    return zones


def _axis(strip: Strip, scale: Scale) -> list[Markup]:
    drawn = [line(8.0, _AXIS, WIDTH - 8.0, _AXIS, "axis")]
    for tick in scale.ticks():
        x = scale(tick)
        drawn.append(line(x, _AXIS, x, _AXIS + 4, "axis"))
        if 20.0 < x < WIDTH - 20.0:
            drawn.append(text(x, _AXIS + 15, tick_text(tick), "tick"))
    drawn.append(text(8.0, HEIGHT - 2, "\N{LEFTWARDS ARROW} worse", "hint", "start"))
    drawn.append(text(WIDTH / 2, HEIGHT - 2, strip.unit, "hint"))
    drawn.append(text(WIDTH - 8.0, HEIGHT - 2, "better \N{RIGHTWARDS ARROW}", "hint", "end"))
    return drawn


def _marks(strip: Strip, scale: Scale) -> list[Markup]:
    reference = scale(strip.reference)
    if strip.limit is None:
        return [
            line(reference, _TOP - 4, reference, _AXIS, "reference"),
            _mark_label(reference, strip.reference_label, "label", left=True),
            *_label_without_a_mark(reference, strip.limit_label),
        ]
    limit = scale(strip.limit)
    limit_is_left = limit <= reference
    drawn = [
        line(limit, _TOP - 4, limit, _AXIS, "limit"),
        _mark_label(limit, strip.limit_label, "limit-label", left=limit_is_left),
    ]
    if abs(limit - reference) > 1.0:
        drawn += [
            line(reference, _TOP - 4, reference, _AXIS, "reference"),
            _mark_label(reference, strip.reference_label, "label", left=not limit_is_left),
        ]
    return drawn


def _label_without_a_mark(reference: float, content: str) -> list[Markup]:
    """At the end that is farther from the reference, whose own label stands there."""
    if not content:
        return []
    if reference < WIDTH / 2:
        return [text(WIDTH - 8.0, _TOP - 9, content, "limit-label", "end")]
    return [text(8.0, _TOP - 9, content, "limit-label", "start")]


def _mark_label(x: float, content: str, kind: str, *, left: bool) -> Markup:
    # Outward of the two lines, so that their labels never meet; inward where there is no room.
    room = x if left else WIDTH - x
    if room < 6.2 * len(content):
        left = not left
    return text(x, _TOP - 9, content, kind, "end" if left else "start")


def _interval(strip: Strip, scale: Scale) -> list[Markup]:
    left, right = sorted((scale(strip.lower), scale(strip.upper)))
    at_left, at_right = (
        (strip.lower, strip.upper) if strip.higher_is_better else (strip.upper, strip.lower)
    )
    kind = f"interval {strip.outcome}"
    drawn = [
        line(left, _BAR, right, _BAR, kind),
        line(left, _BAR - _CAP, left, _BAR + _CAP, kind),
        line(right, _BAR - _CAP, right, _BAR + _CAP, kind),
        circle(scale(strip.estimate), _BAR, 5.0, f"estimate {strip.outcome}"),
        text(left - 6, _BAR + 4, strip.write(at_left), "number", "end"),
        text(right + 6, _BAR + 4, strip.write(at_right), "number", "start"),
    ]
    if right - left > 34.0:
        estimate = strip.write(strip.estimate)
        drawn.append(text(scale(strip.estimate), _BAR - 11, estimate, "number strong"))
    return drawn
