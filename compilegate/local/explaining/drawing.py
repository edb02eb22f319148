"""An explanation as an SVG: a box for each step, what it waits for on its left. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from compilegate.local.explaining.explanation import ExplainedStep, Explanation

_WIDTH, _HEIGHT = 250, 62
_ACROSS, _DOWN = 70, 22
_MARGIN = 20
_CHARACTERS = 36
"""As many as fit a box."""

_STYLE = (
    "text{font:12px sans-serif;fill:#1b2733}.name{font-weight:600}.small{font-size:11px;"
    "fill:#4a5b6c}.box{fill:#eef4fa;stroke:#5b82a8}.refused{fill:#fdecea;stroke:#b3402f}"
    ".left{fill:#f3f3f3;stroke:#9a9a9a;stroke-dasharray:4 3}"
    "path{fill:none;stroke:#8496a8}.branch{stroke-dasharray:5 4}"
)


def svg(explanation: Explanation) -> str:
    """The whole picture."""
    places = _places(explanation)
    width = _MARGIN * 2 + max((x + _WIDTH for x, _ in places.values()), default=_WIDTH) - _MARGIN
    height = _MARGIN + max((y + _HEIGHT for _, y in places.values()), default=_HEIGHT)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<style>{_STYLE}</style>",
        *(line for step in explanation.steps for line in _lines(step, places)),
        *(part for step in explanation.steps for part in _box(step, places[step.name])),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _places(explanation: Explanation) -> Mapping[str, tuple[int, int]]:
    """Where each box begins: a column after all that come before it, rows in definition order."""
    columns = _columns(explanation)
    rows: dict[int, int] = {}
    places = {}
    for step in explanation.steps:
        column = columns[step.name]
        row = rows.get(column, 0)
        rows[column] = row + 1
        places[step.name] = (
            _MARGIN + column * (_WIDTH + _ACROSS),
            _MARGIN + row * (_HEIGHT + _DOWN),
        )
    return places


def _columns(explanation: Explanation) -> Mapping[str, int]:
    """The longest way to each step; steps that wait for each other stay where they are."""
    columns = dict.fromkeys((step.name for step in explanation.steps), 0)
    for _ in explanation.steps:
        moved = False
        for step in explanation.steps:
            least = max((columns[name] + 1 for name in step.parents if name in columns), default=0)
            if columns[step.name] < least < len(columns):
                columns[step.name] = least
                moved = True
        if not moved:
            break
    return columns


def _lines(step: ExplainedStep, places: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    x, y = places[step.name]
    for parent in dict.fromkeys(step.parents):
        if parent not in places:
            continue
        from_x, from_y = places[parent][0] + _WIDTH, places[parent][1] + _HEIGHT // 2
        to_y, middle = y + _HEIGHT // 2, (from_x + x) // 2
        kind = ' class="branch"' if parent == step.condition else ""
        way = f"M{from_x} {from_y}C{middle} {from_y} {middle} {to_y} {x} {to_y}"
        yield f"<path{kind} d={quoteattr(way)}/>"


def _box(step: ExplainedStep, place: tuple[int, int]) -> Iterator[str]:
    x, y = place
    kind = "left" if step.left_out is not None else "refused" if step.refused else "box"
    side = "" if step.taken_when is None else (", if" if step.taken_when else ", else")
    told = step.left_out or "; ".join(step.refused) or step.where
    yield "<g>"
    yield f"<title>{escape(f'{step.name} ({step.type}): {told}')}</title>"
    yield f'<rect class="{kind}" x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
    rows = (("name", step.name), ("small", f"{step.type}{side}"), ("small", told))
    for number, (style, text) in enumerate(rows):
        yield f'<text class="{style}" x="{x + 10}" y="{y + 19 + 17 * number}">{_cut(text)}</text>'
    yield "</g>"


def _cut(text: str) -> str:
    return escape(text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…")
