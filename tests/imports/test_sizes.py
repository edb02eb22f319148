"""How large a file and a folder may become before a reader loses the thread."""

from __future__ import annotations

from collections import Counter

from tests.imports.project import PROJECT, modules

A_DOZEN = 12
MOST_LINES = 500


def test_a_room_has_at_most_a_dozen_files_on_one_level() -> None:
    files = Counter(
        path.parent.relative_to(PROJECT).as_posix()
        for path in modules().values()
        if path.name != "__init__.py"
    )
    assert {folder: count for folder, count in files.items() if count > A_DOZEN} == {}


def test_a_file_holds_one_thought() -> None:
    places = ("compilegate", "pipelines", "training", "infra", "tools", "benchmarks", "tests")
    lines = {
        path.relative_to(PROJECT).as_posix(): path.read_text(encoding="utf-8").count("\n")
        for place in places
        for path in (PROJECT / place).rglob("*.py")
    }
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
