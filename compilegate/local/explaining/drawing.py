"""An explanation as an SVG: a box for each step, what it waits for on its left. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from compilegate.local.explaining.explanation import ExplainedStep, Explanation

_WIDTH, _HEIGHT = 250, 62
_ACROSS, _DOWN, _LANE = 70, 22, 14
_MARGIN = 20
_CHARACTERS = 37
"""As many small letters as fit a box."""

_STYLE = (
    "text{font:12px sans-serif;fill:#1b2733}.name{font-weight:600}.small{font-size:11px;"
    "fill:#4a5b6c}.box{fill:#eef4fa;stroke:#5b82a8}.refused{fill:#fdecea;stroke:#b3402f}"
    ".left{fill:#f3f3f3;stroke:#9a9a9a;stroke-dasharray:4 3}"
    "path{fill:none;stroke:#8496a8}.branch{stroke-dasharray:5 4}"
)


@dataclass(frozen=True)
class _Plan:
    """Where all boxes begin, and at which height a line passes each column on its way."""

    places: Mapping[str, tuple[int, int]]
    lanes: Mapping[tuple[str, int], int]
    """By the step where the line begins, and the column."""
    columns: Mapping[str, int]
    height: int


def svg(explanation: Explanation) -> str:
    """The whole picture."""
    plan = _plan(explanation)
    width = _MARGIN + max((x + _WIDTH for x, _ in plan.places.values()), default=_WIDTH)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {plan.height}" '
        f'width="{width}" height="{plan.height}" role="img">',
        f"<style>{_STYLE}</style>",
        *(line for step in explanation.steps for line in _lines(step, plan)),
        *(part for step in explanation.steps for part in _box(step, plan.places[step.name])),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _plan(explanation: Explanation) -> _Plan:
    """A column after all that come before it, rows in definition order. A line that passes a
    column has a lane of its own in it, so that it goes behind no box."""
    columns = _columns(explanation)
    rows: dict[str, int] = {}
    taken: dict[int, list[tuple[int, str | None, str]]] = {}
    for step in explanation.steps:
        boxes = taken.setdefault(columns[step.name], [])
        rows[step.name] = len(boxes)
        boxes.append((len(boxes), step.name, ""))
    passed = {
        (parent, column)
        for step in explanation.steps
        for parent in step.parents
        if parent in columns
        for column in range(columns[parent] + 1, columns[step.name])
    }
    order = {step.name: number for number, step in enumerate(explanation.steps)}
    for parent, column in sorted(passed, key=lambda each: (order[each[0]], each[1])):
        taken.setdefault(column, []).append((rows[parent], None, parent))
    places: dict[str, tuple[int, int]] = {}
    lanes: dict[tuple[str, int], int] = {}
    lowest = _MARGIN + _HEIGHT
    for column, entries in taken.items():
        y = _MARGIN
        # At the height where it begins a line passes below the box.
        for _, name, parent in sorted(entries, key=lambda entry: (entry[0], entry[1] is None)):
            if name is None:
                lanes[parent, column] = y
                y += _LANE
            else:
                places[name] = (_MARGIN + column * (_WIDTH + _ACROSS), y)
                y += _HEIGHT + _DOWN
                lowest = max(lowest, y - _DOWN)
    return _Plan(places, lanes, columns, max([lowest, *lanes.values()]) + _MARGIN)


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


def _lines(step: ExplainedStep, plan: _Plan) -> Iterator[str]:
    x, y = plan.places[step.name]
    for parent in dict.fromkeys(step.parents):
        if parent not in plan.places:
            continue
        from_x, from_y = plan.places[parent][0] + _WIDTH, plan.places[parent][1] + _HEIGHT // 2
        way = f"M{from_x} {from_y}"
        for column in range(plan.columns[parent] + 1, plan.columns[step.name]):
            to_x, to_y = _MARGIN + column * (_WIDTH + _ACROSS), plan.lanes[parent, column]
            way += f"{_curve(from_x, from_y, to_x, to_y)}H{to_x + _WIDTH}"
            from_x, from_y = to_x + _WIDTH, to_y
        kind = ' class="branch"' if parent == step.condition else ""
        way += _curve(from_x, from_y, x, y + _HEIGHT // 2)
        yield f"<path{kind} d={quoteattr(way)}/>"


def _curve(from_x: int, from_y: int, to_x: int, to_y: int) -> str:
    middle = (from_x + to_x) // 2
    return f"C{middle} {from_y} {middle} {to_y} {to_x} {to_y}"


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
    if sum(map(_breadth, text)) <= _CHARACTERS:
        return escape(text)
    kept, room = "", _CHARACTERS - 1.0
    for character in text:
        room -= _breadth(character)
        if room < 0:
            break
        kept += character
    return escape(f"{kept}…")


def _breadth(character: str) -> float:
    """How much room it takes, where a small letter takes 1."""
    if unicodedata.east_asian_width(character) in {"W", "F"} or character in "MW@%":
        return 2.0
    return 1.3 if character.isupper() else 1.0
