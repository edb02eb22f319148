"""Training loss over the share of training done, one line per replicate, one colour per arm."""

from __future__ import annotations

from markupsafe import Markup

from compilegate.gate.observations import Observations
from compilegate.report.charts.scale import Scale, spread, tick_text
from compilegate.report.charts.svg import WIDTH, chart, line, polyline, text

HEIGHT = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, WIDTH - 12.0, 18.0, HEIGHT - 40.0
COLOURS = 6
"""How many arms have a colour of their own before colours repeat."""


def arm_class(index: int) -> str:
    """The class that gives an arm its colour; the baseline is the first."""
    return f"arm-{index % COLOURS}"


def loss_chart(observations: Observations, *, title: str, identity: str) -> Markup | None:
    """All loss curves together; None when there is none.

    The horizontal axis is the share of training done, since arms with larger batches take fewer
    steps over the same data.
    """
    order = {arm.arm: index for index, arm in enumerate(observations.arms)}
    curves = [(item, item.loss) for item in observations.replicates if item.loss is not None]
    curves = [(item, curve) for item, curve in curves if curve.losses]
    if not curves:
        return None
    x = Scale(0.0, 1.0, _LEFT, _RIGHT)
    y = _loss_scale([loss for _, curve in curves for loss in curve.losses])
    drawn = [
        polyline(
            [
                (x(step / max((item.steps or 1) - 1, 1)), y(loss))
                for step, loss in zip(curve.steps, curve.losses, strict=True)
            ],
            f"curve {arm_class(order[item.arm])}",
        )
        for item, curve in curves
    ]
    return chart(
        *_axes(x, y),
        *drawn,
        height=HEIGHT,
        title=title,
        description=f"Training loss of {len(curves)} replicates, averaged over short stretches.",
        identity=identity,
    )


def _loss_scale(losses: list[float]) -> Scale:
    low, high = spread(min(losses), max(losses))
    if low > 0.0 and high / low > 8.0:
        return Scale(low * 0.9, high * 1.1, _BOTTOM, _TOP, logarithmic=True)
    return Scale(low - (high - low) * 0.05, high + (high - low) * 0.05, _BOTTOM, _TOP)


def _axes(x: Scale, y: Scale) -> list[Markup]:
    drawn = [line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis")]
    for tick in y.ticks():
        drawn.append(line(_LEFT, y(tick), _RIGHT, y(tick), "grid"))
        drawn.append(text(_LEFT - 6, y(tick) + 4, tick_text(tick), "tick", "end"))
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        anchor = "end" if share == 1.0 else "middle"
        drawn.append(text(x(share), _BOTTOM + 15, f"{share:.0%}", "tick", anchor))
    drawn.append(text((_LEFT + _RIGHT) / 2, HEIGHT - 6, "share of training done", "hint"))
    unit = "training loss, logarithmic" if y.logarithmic else "training loss"
    drawn.append(text(4.0, 10.0, unit, "hint", "start"))
    return drawn
