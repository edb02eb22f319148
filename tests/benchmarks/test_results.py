"""The results of benchmarks: each is complete, has a program, and stands on a page as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import results

NAMES = sorted(path.stem for path in results.RESULTS.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_complete_and_its_program_exists(name: str) -> None:
    result = results.read(name)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result.date)
    assert result.machine
    assert {len(row) for row in result.rows} == {len(result.columns)}
    module = re.match(r"python -m ([\w.]+)", result.command)
    if module and not any("program was removed" in note for note in result.notes):
        path = results.PROJECT / module[1].replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def test_each_result_stands_on_a_page_and_each_page_has_the_results_as_they_are() -> None:
    pages = results.pages()
    assert {path.name for path in pages} >= {"measured.md", "zoo.md"}
    shown = {name for text in pages.values() for _, name in results.MARKS.findall(text)}
    assert shown == set(NAMES)
    stale = [str(path) for path, text in pages.items() if path.read_text("utf-8") != text]
    assert stale == [], "run `python -m benchmarks.results`"


def test_a_result_is_written_once_and_fills_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "DOCS", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- result: one -->\nold\n<!-- result: end -->\nb\n")
    results.publish("one", ["x"], [[1.5]], to_file=True, notes=["n"])
    assert results.read("one").rows == [["1.5"]]
    assert "| 1.5 |\n<!-- result: end -->\nb\n" in page.read_text()
    assert "old" not in page.read_text()
