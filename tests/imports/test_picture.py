"""The architecture's picture: of the rules as they are, and one that every reader can open."""

from __future__ import annotations

import tomllib
from typing import Any
from xml.etree import ElementTree

from tests.imports.project import PROJECT
from tools.draw_architecture import diagram, picture


def declared() -> dict[str, Any]:
    return tomllib.loads((PROJECT / "docs/architecture.toml").read_text(encoding="utf-8"))


def test_the_picture_shows_the_rules_as_they_are() -> None:
    kept = (PROJECT / "docs/architecture.svg").read_text(encoding="utf-8")
    assert kept == picture(declared()), "stale: run tools/draw_architecture.py"


def test_every_room_lies_above_all_that_it_imports() -> None:
    drawing = diagram(declared())
    assert [
        each for each in drawing.arrows if drawing.row(each.above) <= drawing.row(each.below)
    ] == []


def test_no_room_covers_another() -> None:
    drawing = diagram(declared())
    places = [(room["column"], drawing.row(name)) for name, room in drawing.rooms.items()]
    assert sorted(set(places)) == sorted(places)


def room(*imports: str) -> dict[str, Any]:
    return {"column": 0, "imports": list(imports), "libraries": []}


def test_an_arrow_is_left_out_only_where_whole_rooms_lead_there() -> None:
    by_a_module = {"top": room("middle", "low"), "middle": room("low.part"), "low": room()}
    assert ("top", "low") in {
        (each.above, each.below) for each in diagram({"rooms": by_a_module}).drawn()
    }
    by_rooms = {"top": room("middle", "low"), "middle": room("low"), "low": room()}
    assert {(each.above, each.below) for each in diagram({"rooms": by_rooms}).drawn()} == {
        ("top", "middle"),
        ("middle", "low"),
    }


def test_only_the_edge_and_what_holds_no_thought_of_its_own_has_no_place() -> None:
    rules = declared()
    hidden = {name for name, room in rules["rooms"].items() if "column" not in room}
    others = {"compilegate", "compilegate.built_in", "compilegate.cli", "compilegate.infra"}
    wording = {"compilegate.errors", "compilegate.declaration_errors"}
    assert hidden == others | wording


def test_what_a_room_is_called_cannot_break_the_picture() -> None:
    rules = declared()
    rules["rooms"]["training"]["holds"] = '<script> & "more"'
    drawn = ElementTree.fromstring(picture(rules))  # noqa: S314  drawn here, a line above
    assert '<script> & "more"' in [each.text for each in drawn.iter() if each.text]
