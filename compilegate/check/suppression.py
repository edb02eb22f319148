"""Comments that say why a finding is to be ignored: `# compilegate: ignore[RULE] reason`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"#\s*compilegate:\s*ignore(?:\[([^\]]*)\])?\s*(.*)$")


@dataclass(frozen=True)
class Ignore:
    """What one comment says."""

    rules: frozenset[str]
    """The rules that it names; none where it names no rule, which ignores nothing."""

    reason: str
    line: int
    column: int


def ignores(lines: tuple[str, ...]) -> dict[int, Ignore]:
    """The comments of a script by the line they speak of.

    A comment at the end of a line speaks of that line; on a line of its own, of the next line with
    code.
    """
    found: dict[int, Ignore] = {}
    for number, line in enumerate(lines, start=1):
        if "compilegate:" not in line:
            continue
        match = _COMMENT.search(line)
        if match is None:
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
