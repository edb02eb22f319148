"""Charts as inline SVG: scales and escaped elements.

Colours, fonts and line widths are the page's, by class name, so that a chart follows light and
dark. There is no script. Every chart has a title and a description with its numbers for those who
do not see it; pointing at a mark shows the browser's own tip.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from markupsafe import Markup, escape

from compilegate.gate.observations import Observations

WIDTH = 440
"""Most charts' width in their own units: half a page, or a phone's whole screen."""
SMALL_WIDTH = 260
"""The width of a small multiple."""
_FEW_DECADES = 4
"""Largest number of decades with ticks between them."""
_MOST_DECADES = 6


@dataclass(frozen=True)
class Scale:
    """Maps [low, high] to [start, end]; `start` may lie right of `end` to turn an axis around."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        share = (self._place(value) - self._place(self.low)) / (
            self._place(self.high) - self._place(self.low)
        )
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values within the scale, about `most` of them."""
        if self.logarithmic:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            decades = range(first, last + 1)
            # Of many decades only every other one, or every third: their names would meet.
            each = -(-len(decades) // _MOST_DECADES)
            factors = (1, 2, 5) if len(decades) <= _FEW_DECADES else (1,)
            ticks = [factor * 10.0**decade for decade in decades[::each] for factor in factors]
            return [tick for tick in ticks if self.low <= tick <= self.high]
        exact = (self.high - self.low) / most
        size = 10.0 ** math.floor(math.log10(exact))
        step = next((factor * size for factor in (1, 2, 5) if factor * size >= exact), 10 * size)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]

    def _place(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.logarithmic else value


def spread(low: float, high: float) -> tuple[float, float]:
    """The range itself, or one around it when both ends are the same."""
    if high > low:
        return low, high
    room = abs(low) * 0.1 or 1.0
    return low - room, high + room


def tick_text(value: float) -> str:
    """A tick's number, without trailing zeros and with a real minus sign."""
    if abs(value) >= 1e6:
        text = f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    else:
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "0" if value == 0 else text.replace("-", "\N{MINUS SIGN}")


def with_minus_signs(numbers: str) -> str:
    """The text with real minus signs; the hyphens of names and dates stay."""
    return re.sub(r"(?<![^\s(])-(?=\d)", "\N{MINUS SIGN}", numbers)


def arm_colours(observations: Observations) -> dict[str, str]:
    """CSS class of each arm's colour; the baseline's is the quiet one. More than seven
    candidates share colours, and each is named anyway."""
    candidates = [arm.arm for arm in observations.arms if arm.arm != observations.baseline]
    return {
        observations.baseline: "arm-0",
        **{name: f"arm-{1 + index % 7}" for index, name in enumerate(candidates)},
    }


def element(name: str, *children: Markup | str, **attributes: str | float | None) -> Markup:
    """One element. ``class_`` becomes ``class``, other underscores become hyphens.

    Text and attribute values are escaped; Markup is taken as it is; None leaves an attribute out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = Markup("").join(children)
    return Markup(f"<{name}{written}>{content}</{name}>")  # noqa: S704 - escaped part by part


def _value(value: str | float) -> Markup:
    number = isinstance(value, float)
    return escape(f"{value:.2f}".rstrip("0").rstrip(".") if number else value)


def chart(
    *children: Markup,
    height: float,
    title: str,
    description: str,
    identity: str,
    width: float = WIDTH,
) -> Markup:
    """The root element. `identity` must be unique on the page: it ties the title to the chart."""
    title_id, description_id = f"{identity}-title", f"{identity}-desc"
    return element(
        "svg",
        element("title", title, id=title_id),
        element("desc", description, id=description_id),
        element("g", *children, aria_hidden="true"),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_labelledby=f"{title_id} {description_id}",
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def text(x: float, y: float, content: str, kind: str = "label", anchor: str = "middle") -> Markup:
    return element("text", content, x=x, y=y, class_=kind, text_anchor=anchor)


def rectangle(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    return element("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=kind)


def polyline(points: list[tuple[float, float]], kind: str, name: str = "polyline") -> Markup:
    """A line through the points; a "polygon" is closed and filled."""
    return element(name, points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=kind)
