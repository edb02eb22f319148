"""Every sentence that a room can write, in one golden file each: read it when a message changes.

`UPDATE_GOLDEN=1` writes tests/style/messages/ROOM.txt. What fills a gap stands in braces.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
WORDS = re.compile(r"\w[:,;)]?\s+[\w(]")
"""Two words beside each other: names, keys and formats have fewer."""


def sentences(node: ast.AST) -> Iterator[str]:
    """The texts of a module in order, without docstrings; an f-string is one text."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.JoinedStr):
        yield "".join(
            part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from sentences(child)


def messages(room: str) -> str:
    """By module, each text that has two words beside each other."""
    lines = []
    for path in sorted((PROJECT / "compilegate" / room).rglob("*.py")):
        found = [
            " ".join(text.replace("\b", "").split())
            for text in sentences(ast.parse(path.read_text(encoding="utf-8")))
            if WORDS.search(re.sub(r"\{[^}]*\}", "{}", text))
        ]
        if found:
            lines += [f"# {path.relative_to(PROJECT)}", *found, ""]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "room", ["catalog", "cli", "document", "history", "local", "posture", "workload"]
)
def test_every_message_of_a_room_has_been_read(room: str) -> None:
    golden = Path(__file__).parent / "messages" / f"{room}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(messages(room), encoding="utf-8")
    assert messages(room) == golden.read_text(encoding="utf-8")
