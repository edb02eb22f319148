"""Compile time against time saved: when has compilation paid for itself, and how sure is that?"""

from __future__ import annotations

from markupsafe import Markup

from compilegate.gate.verdict import RunJudgement, SpeedJudgement
from compilegate.report import formats
from compilegate.report.charts.scale import Scale, spread, tick_text
from compilegate.report.charts.svg import (
    WIDTH,
    Mark,
    chart,
    circle,
    line,
    polygon,
    polyline,
    rectangle,
    text,
)
from compilegate.report.repayment import BreakEven, break_even_of, saved_per_step

HEIGHT = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, WIDTH - 12.0, 16.0, HEIGHT - 40.0
FARTHEST = 3.0
"""How many lengths of the run are drawn to reach a break-even point beyond its end."""
_STOPS = 12


def break_even_chart(
    speed: SpeedJudgement, *, colour: str, title: str, identity: str
) -> Markup | None:
    """Seconds saved, compilation paid, over the candidate's steps, with the band that the
    speed-up's interval leaves open; None where nobody knows what compiling took."""
    run, point = speed.run, break_even_of(speed)
    if run is None or point is None:
        return None
    overhead = max(run.candidate_compile_seconds - run.baseline_compile_seconds, 0.0)
    rates = [
        saved_per_step(speed, run, speedup)
        for speedup in (speed.speedup.lower, speed.speedup.estimate, speed.speedup.upper)
    ]
    last = _last_step(run)
    ends = [rate * last - overhead for rate in rates]
    x = Scale(0.0, last, _LEFT, _RIGHT)
    low, high = spread(min(-overhead, *ends, 0.0), max(*ends, 0.0))
    room = (high - low) * 0.08
    y = Scale(low - room, high + room, _BOTTOM, _TOP)
    start = (x(0.0), y(-overhead))
    return chart(
        rectangle(_LEFT, y(0.0), _RIGHT - _LEFT, _BOTTOM - y(0.0), "zone-bad"),
        *_axes(x, y),
        polygon([start, (x(last), y(ends[2])), (x(last), y(ends[0]))], f"band {colour}"),
        polyline([start, (x(last), y(ends[1]))], f"curve saved {colour}"),
        *_run_end(x, run.candidate_steps, last),
        *_crossing(x, y, point, last, colour),
        marks=[
            _stop(steps, [rate * steps - overhead for rate in rates], x, y)
            for steps in (last * index / _STOPS for index in range(_STOPS + 1))
        ],
        height=HEIGHT,
        title=title,
        description=(
            f"Compilation costs {formats.seconds(overhead)}; after {run.candidate_steps:,} steps "
            f"{formats.seconds(rates[1] * run.candidate_steps - overhead)} are saved. Break-even: "
            f"{formats.break_even(run.break_even_steps, run.break_even_minutes)}; {point.range}."
        ),
        identity=identity,
    )


def _last_step(run: RunJudgement) -> float:
    steps, wanted = run.candidate_steps, 1.25 * (run.break_even_steps or 0)
    return max(min(max(float(steps), wanted), FARTHEST * steps), 1.0)


def _axes(x: Scale, y: Scale) -> list[Markup]:
    drawn = [line(_LEFT, y(0.0), _RIGHT, y(0.0), "reference")]
    for tick in y.ticks(4):
        drawn.append(text(_LEFT - 6, y(tick) + 4, tick_text(tick), "tick", "end"))
        drawn.append(line(_LEFT, y(tick), _RIGHT, y(tick), "grid"))
    for tick in x.ticks(4):
        drawn.append(text(x(tick), _BOTTOM + 15, tick_text(tick), "tick"))
    drawn.append(line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis"))
    drawn.append(text((_LEFT + _RIGHT) / 2, HEIGHT - 6, "steps of the candidate", "hint"))
    drawn.append(text(4.0, 10.0, "seconds saved", "hint", "start"))
    return drawn


def _run_end(x: Scale, steps: int, last: float) -> list[Markup]:
    if steps >= last * 0.995:
        return []
    return [
        line(x(steps), _TOP, x(steps), _BOTTOM, "run-end"),
        text(x(steps) - 5, _BOTTOM - 7, "this run ends", "label", "end"),
    ]


def _crossing(x: Scale, y: Scale, point: BreakEven, last: float, colour: str) -> list[Markup]:
    """The point and, on the line of no saving, what the evidence leaves open about it."""
    drawn = []
    if point.earliest is not None and point.earliest <= last:
        right = last if point.latest is None else min(point.latest, last)
        drawn.append(line(x(point.earliest), y(0.0), x(right), y(0.0), f"interval {colour}"))
        for bound in (point.earliest, point.latest):
            if bound is not None and bound <= last:
                drawn.append(line(x(bound), y(0.0) - 6, x(bound), y(0.0) + 6, f"interval {colour}"))
    steps = point.steps
    if steps is None or steps > last:
        words = "never breaks even" if steps is None else f"breaks even at {steps:,} steps"
        return [*drawn, text(_RIGHT - 6, _TOP + 34, words, "label strong", "end")]
    anchor, shift = ("end", -8) if x(steps) > WIDTH / 2 else ("start", 8)
    return [
        *drawn,
        circle(x(steps), y(0.0), 5.0, f"estimate {colour}"),
        text(x(steps) + shift, y(0.0) - 11, f"{steps:,} steps", "label strong", anchor),
    ]


def _stop(steps: float, saved: list[float], x: Scale, y: Scale) -> Mark:
    """`saved` after so many steps: at the lower end, as estimated, at the upper end."""
    (lower, estimate, upper), wide = saved, (_RIGHT - _LEFT) / _STOPS
    drawn = rectangle(x(steps) - wide / 2, _TOP, wide, _BOTTOM - _TOP, "target")
    drawn += line(x(steps), _TOP, x(steps), _BOTTOM, "cursor")
    lines = (
        f"after {steps:,.0f} steps",
        f"{formats.seconds(abs(estimate))} {'saved' if estimate >= 0.0 else 'behind'}",
        f"interval {formats.seconds(lower)} to {formats.seconds(upper)}",
    )
    return Mark(drawn, lines, x(steps), y(estimate), focusable=False)
