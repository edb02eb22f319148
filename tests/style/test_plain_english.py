"""Docstrings and messages are plain English: no docstring begins with Of, no phrase is borrowed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FOLDERS = ("compilegate", "pipelines", "training", "infra", "benchmarks", "tools")
PHRASES = (
    r"\bgone on from\b",
    r"\bfollowed no more\b",
    r"\bspeaks for\b",
    r"\bless one of\b",
    r"\bof which nothing is said\b",
    r"\bof one's own\b",
    r"\bfor want of\b",
    r"\berrs at most\b",
    r"\balarm rings\b",
    r"\bas good as never\b",
    r"\bby the clock\b",
    r"\bis there already\b",
    r"\bbeside the compiler\b",
    r"\bnobody's business\b",
    r", and said\b",
    r"\w no more[.,;:]",
    r"\w any more[.,;:)]",
)
"""Each was written here once, and no native would say it."""


def texts(code: str) -> Iterator[tuple[int, str]]:
    """Every string of a module on one line, with the number of the line that it begins on."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())


def docstrings(code: str) -> Iterator[tuple[int, str]]:
    """Every string that stands alone as a statement, below what it documents or inside it."""
    for node in ast.walk(ast.parse(code)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value.strip()


def modules() -> list[Path]:
    return [
        path
        for folder in FOLDERS
        for path in sorted((PROJECT / folder).rglob("*.py"))
        if "__pycache__" not in path.parts
    ]


def begins_with_of(code: str) -> list[int]:
    return [line for line, text in docstrings(code) if text.startswith("Of ")]


def borrowed(code: str) -> list[str]:
    return [
        f"line {line}: {found[0]}"
        for line, text in texts(code)
        for phrase in PHRASES
        if (found := re.search(phrase, text))
    ]


@pytest.mark.slow
def test_no_docstring_begins_with_of() -> None:
    found = {
        str(path.relative_to(PROJECT)): lines
        for path in modules()
        if (lines := begins_with_of(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.slow
def test_no_string_has_a_phrase_that_no_native_would_say() -> None:
    found = {
        str(path.relative_to(PROJECT)): phrases
        for path in modules()
        if (phrases := borrowed(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize("page", [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))])
def test_no_page_has_one_either(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert [found[0] for phrase in PHRASES if (found := re.search(phrase, text))] == []


def test_both_kinds_of_offence_are_found() -> None:
    code = 'LIMIT = 3\n"""Of each job."""\nprint("it can be\\n followed no more; try again")\n'
    assert begins_with_of(code) == [2]
    assert borrowed(code) == ["line 3: followed no more", "line 3: d no more;"]
