"""How long steps took: one row per replicate, with median, quartiles and the middle 90 per cent."""

from __future__ import annotations

from markupsafe import Markup

from compilegate.gate.observations import QUANTILES, Observations, ReplicateObservation
from compilegate.report import formats
from compilegate.report.charts.loss_curves import arm_class
from compilegate.report.charts.scale import Scale, spread, tick_text
from compilegate.report.charts.svg import WIDTH, chart, line, rectangle, text

ROW = 22.0
_LEFT, _RIGHT, _TOP = 128.0, WIDTH - 12.0, 8.0
LONGEST_NAME = 16
"""Characters of an arm's name that fit before the axis."""


def step_time_chart(observations: Observations, *, title: str, identity: str) -> Markup | None:
    """The steady steps' times as boxes; None when no replicate has any."""
    order = {arm.arm: index for index, arm in enumerate(observations.arms)}
    rows = [item for item in observations.replicates if len(item.step_seconds) == len(QUANTILES)]
    if not rows:
        return None
    bottom = _TOP + ROW * len(rows)
    low, high = spread(
        min(item.step_seconds[1] for item in rows), max(item.step_seconds[5] for item in rows)
    )
    room = (high - low) * 0.06
    factor, unit = (1000.0, "milliseconds") if high < 1.0 else (1.0, "seconds")
    x = Scale((low - room) * factor, (high + room) * factor, _LEFT, _RIGHT)
    drawn = [_axis_tick(x, tick, bottom) for tick in x.ticks()]
    for index, item in enumerate(rows):
        drawn += _row(item, _TOP + ROW * (index + 0.5), x, factor, arm_class(order[item.arm]))
    return chart(
        *drawn,
        line(_LEFT, bottom, _RIGHT, bottom, "axis"),
        text((_LEFT + _RIGHT) / 2, bottom + 32, f"{unit} per step", "hint"),
        height=bottom + 38,
        title=title,
        description="; ".join(
            f"{item.arm} seed {item.seed}: median {formats.seconds(item.step_seconds[3])}"
            for item in rows
        ),
        identity=identity,
    )


def _axis_tick(x: Scale, tick: float, bottom: float) -> Markup:
    return line(x(tick), _TOP, x(tick), bottom, "grid") + text(
        x(tick), bottom + 15, tick_text(tick), "tick"
    )


def _row(
    item: ReplicateObservation, y: float, x: Scale, factor: float, colour: str
) -> list[Markup]:
    _, low, quarter, median, three_quarters, high, _ = (
        x(value * factor) for value in item.step_seconds
    )
    name = item.arm if len(item.arm) <= LONGEST_NAME else item.arm[: LONGEST_NAME - 1] + "…"
    return [
        text(_LEFT - 8, y + 4, f"{name} · {item.seed}", "label", "end"),
        line(low, y, high, y, f"whisker {colour}"),
        rectangle(quarter, y - 6, max(three_quarters - quarter, 1.5), 12, f"box {colour}"),
        line(median, y - 8, median, y + 8, f"median {colour}"),
    ]
