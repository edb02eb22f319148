"""How the arms trained: losses over the training, and the jobs in time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from compilegate.gate.observations import Observations, ReplicateObservation
from compilegate.job.evidence import FloatArray
from compilegate.report import formats
from compilegate.report.summary import Span
from compilegate.report.svg import (
    SMALL_WIDTH,
    WIDTH,
    Mark,
    Scale,
    arm_colours,
    chart,
    circle,
    fitting,
    line,
    polygon,
    polyline,
    rectangle,
    spread,
    text,
    tick_text,
)

# Losses: a small chart for each arm, all on one scale. Arms that train alike would lie on one
# another in one chart, and then nobody sees the lower one.

HEIGHT = 168.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, SMALL_WIDTH - 8.0, 8.0, HEIGHT - 36.0
_SHARES = np.linspace(0.0, 1.0, 41)
"""Where curves of different lengths are compared."""
_STOPS = 10
"""Places along a chart that tell their numbers to the mouse."""


@dataclass(frozen=True)
class LossCharts:
    """(arm, chart) for each arm with a loss curve."""

    panels: tuple[tuple[str, Markup], ...]
    logarithmic: bool


def loss_charts(observations: Observations, *, identity: str) -> LossCharts | None:
    """A chart for each arm with a loss curve; None where there is no curve at all.

    The horizontal axis is the share of training done, since arms with larger batches take fewer
    steps over the same data.
    """
    curves = {
        arm.arm: [
            _at_shares(item)
            for item in observations.replicates
            if item.arm == arm.arm and item.loss is not None and item.loss.losses
        ]
        for arm in observations.arms
    }
    curves = {arm: found for arm, found in curves.items() if found}
    if not curves:
        return None
    y = _loss_scale([float(loss) for found in curves.values() for one in found for loss in one])
    colours, baseline = arm_colours(observations), curves.get(observations.baseline, [])
    panels = []
    for index, (arm, found) in enumerate(curves.items(), start=1):
        behind = [] if arm == observations.baseline else baseline
        panel = _Panel(arm, colours.get(arm, ""), found, behind, y)
        panels.append((arm, panel.drawn(f"{identity}-{index}")))
    return LossCharts(tuple(panels), y.logarithmic)


def _at_shares(item: ReplicateObservation) -> FloatArray:
    """(41,) the loss at each share of the training."""
    curve = item.loss
    assert curve is not None  # noqa: S101 - such replicates are left out
    last = max((item.steps or 1) - 1, 1)
    return np.interp(_SHARES, np.asarray(curve.steps) / last, np.asarray(curve.losses))


@dataclass(frozen=True)
class _Panel:
    """One arm's curves, and the baseline's behind them."""

    arm: str
    colour: str
    curves: list[FloatArray]
    baseline: list[FloatArray]
    """Empty in the baseline's own panel, and where it has none."""
    y: Scale

    def drawn(self, identity: str) -> Markup:
        """The chart."""
        x, y, mean = Scale(0.0, 1.0, _LEFT, _RIGHT), self.y, np.mean(self.curves, axis=0)
        drawn, against = _axes(x, y), ""
        if self.baseline:
            drawn.append(_band(self.baseline, x, y))
            against = f"; the baseline's ends at {np.mean(self.baseline, axis=0)[-1]:.4g}"
        weight = "curve" if len(self.curves) == 1 else "thin"
        drawn += [polyline(_places(it, x, y), f"{weight} {self.colour}") for it in self.curves]
        if len(self.curves) > 1:
            drawn.append(polyline(_places(mean, x, y), f"curve {self.colour}"))
        return chart(
            *drawn,
            marks=[self._stop(index / _STOPS, mean, x) for index in range(_STOPS + 1)],
            height=HEIGHT,
            width=SMALL_WIDTH,
            title=f"Training loss of {self.arm}",
            description=(
                f"Mean of {formats.counted(len(self.curves), 'seed')}: from {mean[0]:.4g} to "
                f"{mean[-1]:.4g}{against}."
            ),
            identity=identity,
        )

    def _stop(self, share: float, mean: FloatArray, x: Scale) -> Mark:
        at = round(share * (len(_SHARES) - 1))
        lines = [f"after {share:.0%}", f"{self.arm}: {mean[at]:.4g}"]
        if self.baseline:
            lines.append(f"baseline: {np.mean(self.baseline, axis=0)[at]:.4g}")
        place, wide = x(share), (_RIGHT - _LEFT) / _STOPS
        drawn = rectangle(place - wide / 2, _TOP, wide, _BOTTOM - _TOP, "target")
        drawn += line(place, _TOP, place, _BOTTOM, "cursor")
        return Mark(drawn, lines, place, self.y(float(mean[at])), focusable=False)


def _places(curve: FloatArray, x: Scale, y: Scale) -> list[tuple[float, float]]:
    return [(x(float(share)), y(float(loss))) for share, loss in zip(_SHARES, curve, strict=True)]


def _band(curves: list[FloatArray], x: Scale, y: Scale) -> Markup:
    """From the least to the greatest of the baseline's curves; a line's width at least."""
    upper = _places(np.max(curves, axis=0), x, y)
    lower = _places(np.min(curves, axis=0), x, y)
    return polygon(
        [(at, top - 1.5) for at, top in upper] + [(at, low + 1.5) for at, low in lower[::-1]],
        "band arm-0",
    )


def _loss_scale(losses: list[float]) -> Scale:
    low, high = spread(min(losses), max(losses))
    if low > 0.0 and high / low > 8.0:
        return Scale(low * 0.9, high * 1.1, _BOTTOM, _TOP, logarithmic=True)
    return Scale(low - (high - low) * 0.05, high + (high - low) * 0.05, _BOTTOM, _TOP)


def _axes(x: Scale, y: Scale) -> list[Markup]:
    drawn = []
    for tick in y.ticks(4):
        drawn.append(line(_LEFT, y(tick), _RIGHT, y(tick), "grid"))
        drawn.append(text(_LEFT - 6, y(tick) + 4, tick_text(tick), "tick", "end"))
    drawn.append(line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis"))
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        drawn.append(text(x(share), _BOTTOM + 15, f"{share:.0%}", "tick", anchor))
    drawn.append(text((_LEFT + _RIGHT) / 2, HEIGHT - 5, "of training done", "hint"))
    return drawn


# The jobs in time: a bar for each step.

_ROW, _NAMES, _END = 20.0, 138.0, WIDTH - 12.0
"""A row's height; where the bars begin, right of their names, and where they end."""
LONGEST_NAME = 18
"""Characters that fit there."""
_UNITS = ((3600.0, "hours", 3 * 3600.0), (60.0, "minutes", 180.0), (1.0, "seconds", 0.0))
"""(size, name, from how many seconds on)."""


def timeline_chart(
    spans: Sequence[Span], colours: Mapping[str, str], *, identity: str
) -> Markup | None:
    """Each step from its start to its end; None where none took time."""
    if not any(span.seconds > 0.0 for span in spans):
        return None
    end = max(span.start + span.seconds for span in spans)
    size, unit = next((size, name) for size, name, least in _UNITS if end >= least)
    x, bottom, drawn = Scale(0.0, end / size, _NAMES, _END), _TOP + _ROW * len(spans), []
    for tick in x.ticks():
        drawn.append(line(x(tick), _TOP, x(tick), bottom, "grid"))
        drawn.append(text(x(tick), bottom + 15, tick_text(tick), "tick"))
    for index, span in enumerate(spans):
        name, kind = fitting(span.name, LONGEST_NAME), "label failed" if span.failed else "label"
        drawn.append(text(_NAMES - 8, _TOP + _ROW * (index + 0.5) + 4, name, kind, "end"))
    drawn.append(line(_NAMES, bottom, _END, bottom, "axis"))
    drawn.append(text((_NAMES + _END) / 2, bottom + 32, f"{unit} since the start", "hint"))
    return chart(
        *drawn,
        marks=[_span(span, index, x, size, colours) for index, span in enumerate(spans)],
        height=bottom + 38,
        title="When each step ran",
        description=f"{len(spans)} steps in {formats.seconds(end)}.",
        identity=identity,
    )


def _span(span: Span, index: int, x: Scale, size: float, colours: Mapping[str, str]) -> Mark:
    y = _TOP + _ROW * (index + 0.5)
    left, right = x(span.start / size), x((span.start + span.seconds) / size)
    colour = "failed" if span.failed else colours.get(span.arm or "", "other")
    drawn = rectangle(0.0, y - _ROW / 2, WIDTH, _ROW, "target")
    if span.cached:
        drawn += circle(left, y, 4.0, f"hollow {colour}")
    else:
        drawn += rectangle(left, y - 6, max(right - left, 2.0), 12, f"span {colour}")
    if span.failed:
        drawn += text(min(right + 9, WIDTH - 4), y + 4, formats.MARKS["fail"], "outcome fail")
    took = "from the cache" if span.cached else formats.seconds(span.seconds)
    began = f"began after {formats.seconds(span.start)}" if span.start > 0.0 else "began at once"
    return Mark(drawn, (span.name, f"{span.status}, {took}", began), (left + right) / 2, y - 4)
