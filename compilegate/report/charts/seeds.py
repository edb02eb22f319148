"""A metric seed by seed: a candidate's value beside the baseline's of the same seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from compilegate.report import formats
from compilegate.report.charts.colours import BASELINE
from compilegate.report.charts.scale import Scale, spread, tick_text
from compilegate.report.charts.svg import (
    SMALL_WIDTH,
    Mark,
    chart,
    circle,
    line,
    polyline,
    rectangle,
    text,
)

HEIGHT = 168.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, SMALL_WIDTH - 8.0, 8.0, HEIGHT - 36.0
_APART = 6.0
"""Half the distance between a seed's two points: none may lie on the other."""
MOST_SEED_LABELS = 10


@dataclass(frozen=True)
class SeedPanel:
    """One candidate's values of one metric, and the baseline's; by seed."""

    arm: str
    colour: str
    metric: str
    candidate: Mapping[int, float]
    baseline: Mapping[int, float]
    limit: float | None
    """The baseline's mean and the margin: where a candidate's mean would be too bad."""
    higher_is_better: bool

    @property
    def seeds(self) -> list[int]:
        """All seeds of the two, in order."""
        return sorted({*self.candidate, *self.baseline})


def seed_charts(panels: Sequence[SeedPanel], *, identity: str) -> list[Markup]:
    """A small chart for each panel, all on one scale."""
    values = [
        value
        for panel in panels
        for value in (
            *panel.candidate.values(),
            *panel.baseline.values(),
            *([] if panel.limit is None else [panel.limit]),
        )
    ]
    if not values:
        return []
    # Per cent, where the page writes per cent.
    factor = 100.0 if formats.metric_value(panels[0].metric, 0.5).endswith("%") else 1.0
    low, high = spread(min(values) * factor, max(values) * factor)
    room = (high - low) * 0.1
    y = Scale(low - room, high + room, _BOTTOM, _TOP)
    return [
        _panel(panel, y, factor, f"{identity}-{index}") for index, panel in enumerate(panels, 1)
    ]


def _panel(panel: SeedPanel, y: Scale, factor: float, identity: str) -> Markup:
    x = {
        seed: _LEFT + (_RIGHT - _LEFT) * (index + 0.5) / len(panel.seeds)
        for index, seed in enumerate(panel.seeds)
    }
    name = formats.metric_name(panel.metric)
    return chart(
        *_grounds(panel, y, factor),
        *_axes(panel, x, y),
        marks=[_mark(panel, seed, x[seed], y, factor) for seed in panel.seeds],
        height=HEIGHT,
        width=SMALL_WIDTH,
        title=f"{name} of {panel.arm}, seed by seed",
        description=(
            f"{len(panel.candidate)} seeds beside the baseline's; the band is the range of the "
            "baseline's own seeds."
        ),
        identity=identity,
    )


def _grounds(panel: SeedPanel, y: Scale, factor: float) -> list[Markup]:
    drawn = []
    if panel.baseline:
        high, low = (y(bound(panel.baseline.values()) * factor) for bound in (max, min))
        high, low = (high, low) if low - high > 2.0 else (high - 1.0, low + 1.0)
        drawn.append(rectangle(_LEFT, high, _RIGHT - _LEFT, low - high, "zone-noise"))
    if panel.limit is not None:
        at = y(panel.limit * factor)
        end = _BOTTOM if panel.higher_is_better else _TOP
        drawn.append(rectangle(_LEFT, min(at, end), _RIGHT - _LEFT, abs(end - at), "zone-bad"))
        drawn.append(line(_LEFT, at, _RIGHT, at, "limit"))
    return drawn


def _axes(panel: SeedPanel, x: Mapping[int, float], y: Scale) -> list[Markup]:
    drawn = []
    for tick in y.ticks(4):
        drawn.append(line(_LEFT, y(tick), _RIGHT, y(tick), "grid"))
        drawn.append(text(_LEFT - 6, y(tick) + 4, tick_text(tick), "tick", "end"))
    drawn.append(line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis"))
    each = -(-len(panel.seeds) // MOST_SEED_LABELS)
    drawn += [text(x[seed], _BOTTOM + 15, str(seed), "tick") for seed in panel.seeds[::each]]
    drawn.append(text((_LEFT + _RIGHT) / 2, HEIGHT - 5, "seed", "hint"))
    return drawn


def _mark(panel: SeedPanel, seed: int, x: float, y: Scale, factor: float) -> Mark:
    candidate, baseline = panel.candidate.get(seed), panel.baseline.get(seed)
    places = [
        (x + shift, y(value * factor), colour)
        for value, shift, colour in (
            (baseline, -_APART, BASELINE),
            (candidate, _APART, panel.colour),
        )
        if value is not None
    ]
    drawn = [rectangle(x - 12, _TOP, 24, _BOTTOM - _TOP, "target")]
    if len(places) > 1:
        drawn.append(polyline([(at, height) for at, height, _ in places], "pair"))
    drawn += [circle(at, height, 4.0, f"estimate {colour}") for at, height, colour in places]
    return Mark(
        Markup("").join(drawn),
        (
            f"seed {seed}",
            f"{panel.arm}: {formats.metric_value(panel.metric, candidate)}",
            f"baseline: {formats.metric_value(panel.metric, baseline)}",
        ),
        x,
        min((height for _, height, _ in places), default=_BOTTOM) - 4,
    )
