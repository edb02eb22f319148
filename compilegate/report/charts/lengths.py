"""How long the training documents are: a histogram, with the lengths of the buckets in it."""

from __future__ import annotations

from itertools import pairwise

from markupsafe import Markup

from compilegate.gate.observations import Observations
from compilegate.report.charts.scale import Scale, tick_text
from compilegate.report.charts.svg import WIDTH, Mark, chart, line, rectangle, text

_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, WIDTH - 12.0, 12.0, 150.0


def length_chart(observations: Observations, *, title: str, identity: str) -> Markup | None:
    """The first arm's documents that say how long they are; None where none does."""
    records = [arm.padding for arm in observations.arms if arm.padding is not None]
    if not records:
        return None
    record = records[0]
    x = Scale(0.0, float(record.histogram_upto[-1]), _LEFT, _RIGHT)
    y = Scale(0.0, float(max(*record.histogram_documents, 1)), _BOTTOM, _TOP)
    bins = zip(pairwise((0, *record.histogram_upto)), record.histogram_documents, strict=True)
    drawn = [
        line(_LEFT, y(tick), _RIGHT, y(tick), "grid")
        + text(_LEFT - 8, y(tick) + 4, tick_text(tick), "tick", "end")
        for tick in y.ticks(3)
    ]
    drawn += [text(x(tick), _BOTTOM + 15, tick_text(tick), "tick") for tick in x.ticks()]
    drawn += [
        line(x(length), _TOP, x(length), _BOTTOM, "bucket") for length in record.bucket_lengths
    ]
    return chart(
        *drawn,
        line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis"),
        text((_LEFT + _RIGHT) / 2, _BOTTOM + 32, "tokens of a document", "hint"),
        marks=[
            Mark(
                rectangle(x(low) + 0.5, y(count), x(high) - x(low) - 1, _BOTTOM - y(count), "bin"),
                (f"{low + 1} to {high} tokens", f"{count:,} documents"),
                (x(low) + x(high)) / 2,
                y(count),
                focusable=False,
            )
            for (low, high), count in bins
        ],
        height=_BOTTOM + 38,
        title=title,
        description=(
            f"{sum(record.histogram_documents):,} documents of up to {record.histogram_upto[-1]} "
            f"tokens; buckets end at {', '.join(map(str, record.bucket_lengths))}"
        ),
        identity=identity,
    )
