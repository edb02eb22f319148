"""Training loss over the share of training done: a small chart for each arm, all on one scale.

Arms that train alike lie on one another in one chart, and then nobody sees the lower one. So each
arm has a chart of its own, with the band of the baseline's seeds behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from compilegate.gate.observations import Observations, ReplicateObservation
from compilegate.job.evidence import FloatArray
from compilegate.report.charts.colours import arm_colours
from compilegate.report.charts.scale import Scale, spread, tick_text
from compilegate.report.charts.svg import (
    SMALL_WIDTH,
    Mark,
    chart,
    line,
    polygon,
    polyline,
    rectangle,
    text,
)

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
    panels = [
        _Panel(
            arm=arm,
            colour=colours.get(arm, ""),
            curves=found,
            baseline=[] if arm == observations.baseline else baseline,
            y=y,
        )
        for arm, found in curves.items()
    ]
    drawn = (panel.drawn(f"{identity}-{index}") for index, panel in enumerate(panels, start=1))
    return LossCharts(tuple(zip(curves, drawn, strict=True)), y.logarithmic)


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
        drawn = [*_axes(x, y)]
        if self.baseline:
            drawn.append(_band(self.baseline, x, y, "band arm-0"))
        weight = "curve" if len(self.curves) == 1 else "thin"
        drawn += [
            polyline(_places(curve, x, y), f"{weight} {self.colour}") for curve in self.curves
        ]
        if len(self.curves) > 1:
            drawn.append(polyline(_places(mean, x, y), f"curve {self.colour}"))
        against = (
            f"; the baseline's ends at {np.mean(self.baseline, axis=0)[-1]:.4g}"
            if self.baseline
            else ""
        )
        return chart(
            *drawn,
            marks=[self._stop(index / _STOPS, mean, x) for index in range(_STOPS + 1)],
            height=HEIGHT,
            width=SMALL_WIDTH,
            title=f"Training loss of {self.arm}",
            description=(
                f"Mean of {len(self.curves)} seed{'' if len(self.curves) == 1 else 's'}: from "
                f"{mean[0]:.4g} to {mean[-1]:.4g}{against}."
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


def _band(curves: list[FloatArray], x: Scale, y: Scale, kind: str) -> Markup:
    """From the least to the greatest of the curves; a line's width at least."""
    upper = _places(np.max(curves, axis=0), x, y)
    lower = _places(np.min(curves, axis=0), x, y)
    return polygon(
        [(at, top - 1.5) for at, top in upper] + [(at, low + 1.5) for at, low in lower[::-1]], kind
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
    for share in (0.0, 0.5, 1.0):
        anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
        drawn.append(text(x(share), _BOTTOM + 15, f"{share:.0%}", "tick", anchor))
    drawn.append(text((_LEFT + _RIGHT) / 2, HEIGHT - 5, "of training done", "hint"))
    return drawn
