"""How the arms trained: a small chart of each arm's loss, all on one scale. Pure.

Arms that train alike would lie on one another in one chart, and nobody would see the lower one.
"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from compilegate.gate.findings import counted
from compilegate.gate.observations import Curve, Observations
from compilegate.job.evidence import FloatArray
from compilegate.report.svg import (
    SMALL_WIDTH,
    Scale,
    arm_colours,
    chart,
    line,
    polyline,
    spread,
    text,
    tick_text,
)

HEIGHT = 168.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, SMALL_WIDTH - 8.0, 8.0, HEIGHT - 36.0
_SHARES = np.linspace(0.0, 1.0, 41)
"""Points at which curves of different lengths are compared."""
_X = Scale(0.0, 1.0, _LEFT, _RIGHT)
"""The share of training done: arms with larger batches take fewer steps over the same data."""


def loss_charts(observations: Observations) -> list[tuple[str, Markup]]:
    """(arm, chart) for each arm with a loss curve."""
    curves: dict[str, list[FloatArray]] = {}
    for item in observations.replicates:
        if item.loss is not None and item.loss.losses:
            curves.setdefault(item.arm, []).append(_at_shares(item.loss, item.steps))
    if not curves:
        return []
    y = _loss_scale(np.concatenate([one for found in curves.values() for one in found]))
    colours, baseline = arm_colours(observations), curves.get(observations.baseline, [])
    charts = []
    for index, (arm, found) in enumerate(curves.items(), start=1):
        look = {"colour": colours.get(arm, ""), "identity": f"loss-{index}"}
        charts.append((arm, _panel(arm, found, baseline, y, **look)))
    return charts


def _at_shares(curve: Curve, steps: int | None) -> FloatArray:
    """(41,) the loss at each share of the training."""
    last = max((steps or 1) - 1, 1)
    return np.interp(_SHARES, np.asarray(curve.steps) / last, np.asarray(curve.losses))


def _panel(
    arm: str,
    curves: list[FloatArray],
    baseline: list[FloatArray],
    y: Scale,
    *,
    colour: str,
    identity: str,
) -> Markup:
    """One arm's curves and their mean, over the band of the baseline's where it is not its own."""
    mean, drawn, against = np.mean(curves, axis=0), _axes(y), ""
    if baseline and curves is not baseline:
        drawn.append(_band(baseline, y))
        against = f"; the baseline's ends at {np.mean(baseline, axis=0)[-1]:.4g}"
    if len(curves) > 1:
        drawn += [polyline(_places(it, y), f"thin {colour}") for it in curves]
    drawn.append(polyline(_places(mean, y), f"curve {colour}"))
    seeds = counted(len(curves), "seed")
    return chart(
        *drawn,
        height=HEIGHT,
        width=SMALL_WIDTH,
        title=f"Training loss of {arm}",
        description=f"Mean of {seeds}: from {mean[0]:.4g} to {mean[-1]:.4g}{against}.",
        identity=identity,
    )


def _places(curve: FloatArray, y: Scale) -> list[tuple[float, float]]:
    return [(_X(float(share)), y(float(loss))) for share, loss in zip(_SHARES, curve, strict=True)]


def _band(curves: list[FloatArray], y: Scale) -> Markup:
    """Band from the least to the greatest of the baseline's curves, at least a line wide."""
    upper, lower = _places(np.max(curves, axis=0), y), _places(np.min(curves, axis=0), y)
    corners = [(at, top - 1.5) for at, top in upper]
    corners += [(at, low + 1.5) for at, low in lower[::-1]]
    return polyline(corners, "band arm-0", "polygon")


def _loss_scale(losses: FloatArray) -> Scale:
    low, high = spread(float(losses.min()), float(losses.max()))
    if low > 0.0 and high / low > 8.0:
        return Scale(low * 0.9, high * 1.1, _BOTTOM, _TOP, logarithmic=True)
    return Scale(low - (high - low) * 0.05, high + (high - low) * 0.05, _BOTTOM, _TOP)


def _axes(y: Scale) -> list[Markup]:
    drawn = []
    for tick in y.ticks(4):
        drawn.append(line(_LEFT, y(tick), _RIGHT, y(tick), "grid"))
        drawn.append(text(_LEFT - 6, y(tick) + 4, tick_text(tick), "tick", "end"))
    drawn.append(line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis"))
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        drawn.append(text(_X(share), _BOTTOM + 15, f"{share:.0%}", "tick", anchor))
    drawn.append(text((_LEFT + _RIGHT) / 2, HEIGHT - 5, "of training done", "hint"))
    return drawn
