"""How long steps took: one row per replicate, with median, quartiles and the middle 90 per cent."""

from __future__ import annotations

from markupsafe import Markup

from compilegate.gate.observations import QUANTILES, Observations, ReplicateObservation
from compilegate.report import formats
from compilegate.report.charts.colours import arm_colours
from compilegate.report.charts.scale import Scale, spread, tick_text
from compilegate.report.charts.svg import WIDTH, Mark, chart, fitting, line, rectangle, text

ROW = 22.0
_LEFT, _RIGHT, _TOP = 138.0, WIDTH - 12.0, 8.0
LONGEST_NAME = 15
"""Characters of an arm's name that fit before the axis."""


def step_time_chart(observations: Observations, *, title: str, identity: str) -> Markup | None:
    """The steady steps' times as boxes; None when no replicate has any."""
    colours = arm_colours(observations)
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
        name = f"{fitting(item.arm, LONGEST_NAME)} · {item.seed}"
        drawn.append(text(_LEFT - 8, _TOP + ROW * (index + 0.5) + 4, name, "label", "end"))
    return chart(
        *drawn,
        line(_LEFT, bottom, _RIGHT, bottom, "axis"),
        text((_LEFT + _RIGHT) / 2, bottom + 32, f"{unit} per step", "hint"),
        marks=[
            _mark(item, _TOP + ROW * (index + 0.5), x, factor, colours.get(item.arm, ""))
            for index, item in enumerate(rows)
        ],
        height=bottom + 38,
        title=title,
        description=f"{len(rows)} jobs: median, quartiles and the middle 90% of the steady steps.",
        identity=identity,
    )


def _axis_tick(x: Scale, tick: float, bottom: float) -> Markup:
    return line(x(tick), _TOP, x(tick), bottom, "grid") + text(
        x(tick), bottom + 15, tick_text(tick), "tick"
    )


def _mark(item: ReplicateObservation, y: float, x: Scale, factor: float, colour: str) -> Mark:
    _, low, quarter, median, three_quarters, high, _ = item.step_seconds
    at = {value: x(value * factor) for value in item.step_seconds}
    box = max(at[three_quarters] - at[quarter], 1.5)
    drawn = rectangle(0.0, y - ROW / 2, WIDTH, ROW, "target")
    drawn += line(at[low], y, at[high], y, f"whisker {colour}")
    drawn += rectangle(at[quarter], y - 6, box, 12, f"box {colour}")
    drawn += line(at[median], y - 8, at[median], y + 8, f"median {colour}")
    return Mark(
        drawn,
        (
            f"{item.arm}, seed {item.seed}",
            f"median {formats.seconds(median)}",
            f"middle 90%: {formats.seconds(low)} to {formats.seconds(high)}",
        ),
        at[median],
        y - 6,
    )
