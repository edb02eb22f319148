"""How large a file and a folder may become before a reader loses the thread."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.imports.project import PROJECT

A_DOZEN = 12
MOST_LINES = 500


PLACES = ("compilegate", "pipelines", "training", "infra", "tools", "benchmarks", "tests")


def files() -> list[Path]:
    """Every Python file, each once: what a link leads to lies in a folder of its own."""
    found = [path for place in PLACES for path in (PROJECT / place).rglob("*.py")]
    return [path.relative_to(PROJECT) for path in found if path.resolve() == path]


def test_a_room_has_at_most_a_dozen_files_on_one_level() -> None:
    counts = Counter(path.parent.as_posix() for path in files() if path.name != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > A_DOZEN} == {}


def test_a_file_holds_one_thought() -> None:
    lines = {path: (PROJECT / path).read_text(encoding="utf-8").count("\n") for path in files()}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}
