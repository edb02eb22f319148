"""When each job ran, beside the others: a bar for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from compilegate.report import formats
from compilegate.report.about import Span
from compilegate.report.charts.scale import Scale, tick_text
from compilegate.report.charts.svg import (
    WIDTH,
    Mark,
    chart,
    circle,
    fitting,
    line,
    rectangle,
    text,
)

ROW = 20.0
_LEFT, _RIGHT, _TOP = 138.0, WIDTH - 10.0, 6.0
LONGEST_NAME = 18
_UNITS = ((3600.0, "hours", 3 * 3600.0), (60.0, "minutes", 180.0), (1.0, "seconds", 0.0))
"""(size, name, from how many seconds on)."""


def timeline_chart(
    spans: Sequence[Span], colours: Mapping[str, str], *, title: str, identity: str
) -> Markup | None:
    """Each span from its start to its end; None where none took time."""
    if not any(span.seconds > 0.0 for span in spans):
        return None
    end = max(span.start + span.seconds for span in spans)
    size, unit = next((size, name) for size, name, least in _UNITS if end >= least)
    x = Scale(0.0, end / size, _LEFT, _RIGHT)
    bottom = _TOP + ROW * len(spans)
    drawn = []
    for tick in x.ticks():
        drawn.append(line(x(tick), _TOP, x(tick), bottom, "grid"))
        drawn.append(text(x(tick), bottom + 15, tick_text(tick), "tick"))
    drawn.append(line(_LEFT, bottom, _RIGHT, bottom, "axis"))
    drawn.append(text((_LEFT + _RIGHT) / 2, bottom + 31, f"{unit} since the start", "hint"))
    for index, span in enumerate(spans):
        y = _TOP + ROW * (index + 0.5)
        kind = "label failed" if span.failed else "label"
        drawn.append(text(_LEFT - 8, y + 4, fitting(span.name, LONGEST_NAME), kind, "end"))
    return chart(
        *drawn,
        marks=[_mark(span, index, x, size, colours) for index, span in enumerate(spans)],
        height=bottom + 36,
        title=title,
        description=f"{len(spans)} steps in {formats.seconds(end)}.",
        identity=identity,
    )


def _mark(span: Span, index: int, x: Scale, size: float, colours: Mapping[str, str]) -> Mark:
    y = _TOP + ROW * (index + 0.5)
    left, right = x(span.start / size), x((span.start + span.seconds) / size)
    colour = "failed" if span.failed else colours.get(span.arm or "", "other")
    drawn = rectangle(0.0, y - ROW / 2, WIDTH, ROW, "target")
    if span.cached:
        drawn += circle(left, y, 4.0, f"hollow {colour}")
    else:
        drawn += rectangle(left, y - 6, max(right - left, 2.0), 12, f"span {colour}")
    if span.failed:
        drawn += text(min(right + 9, WIDTH - 4), y + 4, formats.MARKS["fail"], "outcome fail")
    took = "from the cache" if span.cached else formats.seconds(span.seconds)
    began = f"began after {formats.seconds(span.start)}" if span.start > 0.0 else "began at once"
    return Mark(drawn, (span.name, f"{span.status}, {took}", began), (left + right) / 2, y - 4)
