"""Compile time against time saved: when has compilation paid for itself?"""

from __future__ import annotations

from markupsafe import Markup

from compilegate.gate.judgements import RunJudgement, SpeedJudgement
from compilegate.report import formats
from compilegate.report.charts.scale import Scale, spread, tick_text
from compilegate.report.charts.svg import WIDTH, chart, circle, line, polyline, rectangle, text

HEIGHT = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, WIDTH - 12.0, 16.0, HEIGHT - 40.0
FARTHEST = 3.0
"""How many lengths of the run are drawn to reach a break-even point beyond its end."""


def break_even_chart(speed: SpeedJudgement, *, title: str, identity: str) -> Markup | None:
    """Seconds saved, compilation paid, over the candidate's steps; None where nobody knows what
    compiling took."""
    run = speed.run
    if run is None:
        return None
    steps = run.candidate_steps
    overhead = max(run.candidate_compile_seconds - run.baseline_compile_seconds, 0.0)
    per_step = run.candidate_batch_size * (
        1.0 / speed.baseline_samples_per_second - 1.0 / speed.candidate_samples_per_second
    )
    last = _last_step(run)
    end = per_step * last - overhead
    x = Scale(0.0, last, _LEFT, _RIGHT)
    low, high = spread(min(-overhead, end, 0.0), max(end, 0.0))
    room = (high - low) * 0.08
    y = Scale(low - room, high + room, _BOTTOM, _TOP)
    return chart(
        rectangle(_LEFT, y(0.0), _RIGHT - _LEFT, _BOTTOM - y(0.0), "zone-bad"),
        *_axes(x, y),
        polyline([(x(0.0), y(-overhead)), (x(last), y(end))], "curve saved"),
        *_run_end(x, steps, last),
        *_crossing(x, y, run.break_even_steps, last),
        height=HEIGHT,
        title=title,
        description=(
            f"Compilation costs {formats.seconds(overhead)}; after {steps:,} steps "
            f"{formats.seconds(per_step * steps - overhead)} are saved. Break-even: "
            f"{formats.break_even(run.break_even_steps, run.break_even_minutes)}."
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
        text(x(steps) + 5, _TOP + 8, "this run ends", "label", "start"),
    ]


def _crossing(x: Scale, y: Scale, steps: int | None, last: float) -> list[Markup]:
    if steps is None or steps > last:
        words = "never breaks even" if steps is None else f"breaks even at {steps:,} steps"
        return [text(_RIGHT - 6, _TOP + 34, words, "label strong", "end")]
    anchor, shift = ("end", -8) if x(steps) > WIDTH / 2 else ("start", 8)
    return [
        circle(x(steps), y(0.0), 5.0, "estimate saved"),
        text(x(steps) + shift, y(0.0) - 9, f"{steps:,} steps", "label strong", anchor),
    ]
