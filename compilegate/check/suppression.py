"""Comments that say why a finding is to be ignored: `# compilegate: ignore[RULE] reason`."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_COMMENT = re.compile(r"#\s*compilegate:\s*ignore(?:\[([^\]]*)\])?\s*(.*)$")


Span = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Ignore:
    """What one comment says."""

    rules: frozenset[str]
    """The rules that it names; none where it names no rule, which ignores nothing."""

    reason: str
    line: int
    column: int


def ignores(lines: tuple[str, ...], tree: ast.Module) -> dict[int, Ignore]:
    """The comments of a script by the line they speak of.

    A comment at the end of a line speaks of that line; on a line of its own, of the next line with
    code.
    """
    found: dict[int, Ignore] = {}
    texts: list[Span] | None = None
    for number, line in enumerate(lines, start=1):
        if "compilegate:" not in line:
            continue
        match = _COMMENT.search(line)
        if match is None:
            continue
        texts = _texts(tree) if texts is None else texts
        if any(first <= (number, match.start()) < last for first, last in texts):
            continue
        rules = frozenset(name.strip() for name in (match[1] or "").split(",") if name.strip())
        target = number
        if not line[: match.start()].strip():
            target = next(
                (
                    later
                    for later, text in enumerate(lines[number:], start=number + 1)
                    if text.strip() and not text.lstrip().startswith("#")
                ),
                number,
            )
        said = Ignore(rules, match[2].strip(" -:"), number, match.start() + 1)
        before = found.get(target)
        if before is not None:
            said = Ignore(before.rules | rules, before.reason or said.reason, number, said.column)
        found[target] = said
    return found


def _texts(tree: ast.Module) -> list[Span]:
    """Where strings begin and end: what stands in them is no comment."""
    return [
        ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr)
        and (isinstance(node, ast.JoinedStr) or isinstance(node.value, str))
        and node.end_lineno is not None
        and node.end_col_offset is not None
    ]
