"""CONTRIBUTING's table and index: every room, and files that hold the names they promise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.imports.project import PROJECT, modules

PLACE = re.compile(r"`([^`:\s]+)(?::([^`\s]+))?`")

TOP = {"pipelines", "training", "infra"}


def index() -> list[tuple[str, str]]:
    """The lines of the tables: what is to be changed, and where."""
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## To change X, look at Y")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [(row[0], " ".join(row[1:])) for row in cells if row[1] != "look at"]


def names_of(path: Path) -> set[str]:
    """What a Python file defines: functions, classes, constants, and what a class holds."""
    return set(_names(ast.parse(path.read_text(encoding="utf-8")).body, ""))


def _names(body: list[ast.stmt], within: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield within + node.name
        if isinstance(node, ast.ClassDef):
            yield from _names(node.body, f"{within}{node.name}.")
        elif isinstance(node, ast.Assign):
            yield from (within + each.id for each in node.targets if isinstance(each, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield within + node.target.id


@pytest.mark.slow
@pytest.mark.parametrize(("change", "places"), index())
def test_the_index_leads_to_what_is_there(change: str, places: str) -> None:
    found = PLACE.findall(places)
    assert found, f"{change}: no file is named"
    for name, inside in found:
        path = PROJECT / name
        assert path.exists(), f"{change}: there is no {name}"
        if not inside:
            continue
        if path.suffix == ".py":
            assert inside in names_of(path), f"{change}: {name} does not define {inside}"
        else:
            assert inside in path.read_text(encoding="utf-8"), f"{change}: {name}, {inside}"


def test_every_room_has_a_line_and_no_change_has_two() -> None:
    changes = [change for change, _ in index()]
    assert len(set(changes)) == len(changes)
    assert 20 <= len(changes) <= 40
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = text.partition("| room | question |")[2].partition("\n\n")[0]
    packages = {
        path.parent.relative_to(PROJECT).as_posix()
        for path in modules().values()
        if path.name == "__init__.py"
    }
    named = {name for name in packages if name in TOP or name.startswith("compilegate/")}
    lacking = [name for name in named if name.count("/") < 2 and f"`{name}/`" not in rooms]
    assert "compilegate/gate" in named
    assert sorted(lacking) == []
