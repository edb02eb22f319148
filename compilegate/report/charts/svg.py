"""SVG elements with everything escaped."""

from __future__ import annotations

from markupsafe import Markup, escape

WIDTH = 440
"""Every chart's width in its own units: half a page, or a phone's whole screen."""

Attribute = str | float | int | None


def element(name: str, *children: Markup | str, **attributes: Attribute) -> Markup:
    """One element. ``class_`` becomes ``class``, other underscores become hyphens.

    Text and attribute values are escaped; Markup is taken as it is; None leaves an attribute out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = Markup("").join(children)
    return Markup(f"<{name}{written}>{content}</{name}>")  # noqa: S704 - escaped part by part


def chart(*children: Markup, height: float, title: str, description: str, identity: str) -> Markup:
    """The root element. `identity` must be unique on the page: it ties the title to the chart."""
    title_id, description_id = f"{identity}-title", f"{identity}-desc"
    return element(
        "svg",
        element("title", title, id=title_id),
        element("desc", description, id=description_id),
        *children,
        viewBox=f"0 0 {WIDTH} {height:g}",
        role="img",
        aria_labelledby=f"{title_id} {description_id}",
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def text(x: float, y: float, content: str, kind: str = "label", anchor: str = "middle") -> Markup:
    return element("text", content, x=x, y=y, class_=kind, text_anchor=anchor)


def rectangle(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    return element("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=kind)


def polyline(points: list[tuple[float, float]], kind: str) -> Markup:
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=kind)


def circle(x: float, y: float, radius: float, kind: str) -> Markup:
    return element("circle", cx=x, cy=y, r=radius, class_=kind)


def _value(value: Attribute) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
