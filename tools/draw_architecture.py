"""Draw `docs/architecture.svg` from `docs/architecture.toml`.

    .venv/bin/python tools/draw_architecture.py

Each room lies above all that it imports. A test fails when the picture is not what the file says.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

DOCS = Path(__file__).parents[1] / "docs"
WIDTH, HEIGHT = 192, 66
ACROSS, DOWN = 216, 96
MARGIN = 28
HEAD = 150
"""Where the first row of rooms begins: below the title, the two rooms at the edge and the heads."""
EDGE = ("compilegate.cli", "compilegate.infra")
"""Rooms that may import all others; an arrow to each would hide the rest."""

STYLE = """
svg { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.paper { fill: #ffffff; } .box { fill: #f4f6fa; stroke: #8a97ad; }
.edge-box { fill: #e6edfb; stroke: #5b7fc7; }
.name { fill: #14213d; font-weight: 600; font-size: 13px; }
.says { fill: #46536b; font-size: 11px; }
.head { fill: #46536b; font-size: 12px; font-style: italic; }
.title { fill: #14213d; font-weight: 600; font-size: 16px; }
.arrow { fill: none; stroke: #5b6b86; stroke-width: 1.4; } .tip { fill: #5b6b86; }
.part { stroke-dasharray: 5 4; }
@media (prefers-color-scheme: dark) {
.paper { fill: #10151f; } .box { fill: #1b2333; stroke: #66748e; }
.edge-box { fill: #1c2c4d; stroke: #7fa0e6; }
.name, .title { fill: #eef2fa; } .says, .head { fill: #b4c0d4; }
.arrow { stroke: #a3b1c9; } .tip { fill: #a3b1c9; }
}
"""


@dataclass(frozen=True)
class Arrow:
    """One room may import another, or only `part` of it."""

    above: str
    below: str
    part: bool


@dataclass(frozen=True)
class Diagram:
    """The rooms that are drawn, and which may import which."""

    rooms: Mapping[str, Mapping[str, Any]]
    arrows: tuple[Arrow, ...]

    def row(self, name: str) -> int:
        """How many rooms lie one below the other under this one, or where it was put."""
        below = [self.row(each.below) for each in self.arrows if each.above == name]
        return max(self.rooms[name].get("row", 0), 1 + max(below, default=-1))

    def drawn(self) -> Iterator[Arrow]:
        """The arrows, without those to where other arrows lead already.

        One module of a room leads to nothing that the room's others import.
        """
        for each in self.arrows:
            others = [other for other in self.arrows if other.above == each.above and other != each]
            if not any(self._leads(other, each) for other in others if not other.part):
                yield each

    def _leads(self, start: Arrow, end: Arrow) -> bool:
        return any(
            (each.below == end.below and (end.part or not each.part))
            or (not each.part and self._leads(each, end))
            for each in self.arrows
            if each.above == start.below
        )


def diagram(declared: Mapping[str, Any]) -> Diagram:
    """The rooms of the file, and its arrows between those that are drawn."""
    rooms = {name: room for name, room in declared["rooms"].items() if "column" in room}
    whole: dict[tuple[str, str], bool] = {}
    for name, room in rooms.items():
        for module in room["imports"]:
            held = [each for each in rooms if module == each or module.startswith(f"{each}.")]
            if held and (other := max(held, key=len)) != name:
                whole[name, other] = whole.get((name, other), False) or module == other
    return Diagram(rooms, tuple(Arrow(*ends, part=not all_) for ends, all_ in whole.items()))


def picture(declared: Mapping[str, Any]) -> str:
    """The whole picture as SVG."""
    drawing = diagram(declared)
    lowest = HEAD + max(map(drawing.row, drawing.rooms)) * DOWN
    places = {
        name: (MARGIN + room["column"] * ACROSS, lowest - drawing.row(name) * DOWN)
        for name, room in drawing.rooms.items()
    }
    width = 2 * MARGIN + 5 * ACROSS + WIDTH
    height = lowest + HEIGHT + 44
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-labelledby="title description">',
        '<title id="title">The rooms of Compilegate</title>',
        '<desc id="description">Drawn by tools/draw_architecture.py from '
        "docs/architecture.toml, which says the same in words.</desc>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'<rect class="paper" width="{width}" height="{height}" rx="10"/>',
        text(MARGIN, 32, "title", "The rooms: an arrow says what may import what"),
        *_edge(declared["rooms"], width),
        *(
            text(MARGIN + column * ACROSS, HEAD - 16, "head", head)
            for column, head in enumerate(declared["columns"])
        ),
        *(_arrow(each, places) for each in drawing.drawn()),
        *(line for name, at in places.items() for line in _box(*at, drawing.rooms[name])),
        text(
            MARGIN,
            lowest + HEIGHT + 24,
            "says",
            "Dashed: single modules of it. An arrow is left out where others lead already. What "
            "all rooms may import (the root of errors, shared names) is not drawn.",
        ),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _edge(rooms: Mapping[str, Any], width: int) -> Iterator[str]:
    wide = (width - 2 * MARGIN - 24) // 2
    for number, name in enumerate(EDGE):
        left = MARGIN + number * (wide + 24)
        yield f'<rect class="edge-box" x="{left}" y="46" width="{wide}" height="52" rx="7"/>'
        yield text(left + 12, 68, "name", rooms[name]["folder"])
        says = f"{rooms[name]['holds']}; may import all below, and is imported by none"
        yield text(left + 12, 86, "says", says)


def _arrow(arrow: Arrow, places: Mapping[str, tuple[int, int]]) -> str:
    """Down the column of either room, whichever is free, and across in the gap between two rows."""
    (from_left, from_top), (to_left, to_top) = places[arrow.above], places[arrow.below]
    aside = (to_left > from_left) - (to_left < from_left)
    x, y = from_left + WIDTH // 2 + aside * 44, from_top + HEIGHT
    end_x, end_y = to_left + WIDTH // 2 - aside * 44, to_top - 2
    between = range(from_top + DOWN, to_top, DOWN)
    free = not any((from_left, top) in places.values() for top in between)
    gap = DOWN - HEIGHT
    across_from, across_to = (end_y - gap + 2, end_y) if free else (y, y + gap)
    middle = (across_from + across_to) // 2
    kind = "arrow part" if arrow.part else "arrow"
    curve = f"C{x} {middle + 8} {end_x} {middle - 8} {end_x} {across_to}"
    path = f"M{x} {y} V{across_from} {curve} V{end_y}"
    return f'<path class="{kind}" d="{path}" marker-end="url(#tip)"/>'


def _box(left: int, top: int, room: Mapping[str, Any]) -> Iterator[str]:
    """A room: its folder, and two short lines on it."""
    yield f'<rect class="box" x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="7"/>'
    yield text(left + 10, top + 20, "name", room["folder"])
    for number, line in enumerate(textwrap.wrap(room["holds"], 30)):
        yield text(left + 10, top + 38 + 15 * number, "says", line)


def text(x: int, y: int, kind: str, words: str) -> str:
    """Words in a class of the style, with everything escaped that XML would read."""
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words.replace("`", ""))}</text>'


def main() -> None:
    """Write the picture beside its source."""
    declared = tomllib.loads((DOCS / "architecture.toml").read_text(encoding="utf-8"))
    (DOCS / "architecture.svg").write_text(picture(declared), encoding="utf-8")


if __name__ == "__main__":
    main()
