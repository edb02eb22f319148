"""Check scripts: read them, find out what runs where, and hold every rule against them."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from compilegate.check.findings import Checked, Finding, Severity, Unread
from compilegate.check.reading.discovery import Read, read_paths
from compilegate.check.regions.compiled import Regions
from compilegate.check.regions.steps import Steps
from compilegate.check.rules.rule import Analysis, Found, Rule, View
from compilegate.check.rules.table import BY_NAME, RULES
from compilegate.check.script.project import Project, Script
from compilegate.check.suppression import Ignore, ignores
from compilegate.rules import COMPILERS

UNKNOWN_RULE = "unknown-rule"
UNEXPLAINED = "unexplained-ignore"
_PAGE = "docs/check.md"
_DEPTH = 5_000


def check_paths(
    paths: Sequence[Path],
    compilers: tuple[str, ...] = COMPILERS,
    rules: Iterable[Rule] = RULES,
) -> Checked:
    """Check files and folders for some compilers. Nothing of them is imported or run."""
    with _without_collection():
        return check_sources(read_paths(paths), compilers, rules)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Leave the collector of circles off: trees live to the end and have nothing to free."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def check_sources(
    read: Read, compilers: tuple[str, ...] = COMPILERS, rules: Iterable[Rule] = RULES
) -> Checked:
    """Check what was read."""
    chosen = [each for each in rules if set(each.compilers) & set(compilers)]
    project = Project(read.sources, read.root)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEPTH))  # for long chains of `+` in scripts with tables
    try:
        analysis = Analysis(project, Steps(project), Regions(project))
        findings: list[Finding] = []
        suppressed: list[Finding] = []
        unread: list[Unread] = list(read.unread)
        for script in project.scripts:
            view = View(script, analysis, compilers)
            comments = ignores(script.source.lines, script.source.tree)
            for finding, said in _findings(view, chosen, comments):
                (findings if said is None else suppressed).append(finding)
            findings += _about_comments(script, comments)
    finally:
        sys.setrecursionlimit(limit)
    return Checked(
        findings=tuple(sorted(findings, key=_order)),
        suppressed=tuple(sorted(suppressed, key=_order)),
        unread=tuple(unread),
        files=len(project.scripts),
        compilers=compilers,
    )


def _order(finding: Finding) -> tuple[str, int, int, int, str]:
    return (str(finding.path), finding.cell or 0, finding.line, finding.column, finding.rule)


def _findings(
    view: View, rules: list[Rule], comments: dict[int, Ignore]
) -> Iterator[tuple[Finding, Ignore | None]]:
    script = view.script
    for each in rules:
        seen: set[tuple[int, int]] = set()
        for found in each.find(view):
            line, column, last = _span(found.node)
            if (line, column) in seen:
                continue
            seen.add((line, column))
            said = _ignored(script, found.node, each.name, comments)
            yield _finding(view, each, found, (line, column, last), said), said


def _span(node: ast.AST) -> tuple[int, int, int]:
    line = getattr(node, "lineno", 1)
    return line, getattr(node, "col_offset", 0) + 1, getattr(node, "end_lineno", None) or line


def _finding(
    view: View, rule: Rule, found: Found, span: tuple[int, int, int], said: Ignore | None
) -> Finding:
    line, column, last = span
    source = view.script.source
    place, end = source.place(line), source.place(last)
    return Finding(
        path=source.path,
        line=place.line,
        column=column,
        rule=rule.name,
        severity=found.severity or rule.severity,
        message=found.message,
        why=rule.why,
        fix=rule.fix,
        page=rule.page,
        compilers=tuple(name for name in rule.compilers if name in view.compilers),
        cell=place.cell,
        end_line=end.line if end.cell == place.cell else place.line,
        suppressed=None if said is None else said.reason,
    )


def _ignored(
    script: Script, node: ast.AST, rule: str, comments: dict[int, Ignore]
) -> Ignore | None:
    """The comment that speaks of a node: on one of its own lines, or of the line it begins in."""
    if not comments:
        return None
    first, _, last = _span(node)
    if isinstance(node, ast.stmt) and isinstance(getattr(node, "body", None), list):
        last = first  # of a loop or function the first line, not all that is in it
    for outer in (node, *script.ancestors(node)):
        if isinstance(outer, ast.stmt):
            first = min(first, outer.lineno)
            if not hasattr(outer, "body"):
                last = max(last, outer.end_lineno or last)
            break
    for line in range(first, last + 1):
        said = comments.get(line)
        if said is not None and rule in said.rules:
            return said
    return None


def _about_comments(script: Script, comments: dict[int, Ignore]) -> Iterator[Finding]:
    """What is wrong with the comments themselves."""
    for said in comments.values():
        place = script.source.place(said.line)
        unknown = sorted(name for name in said.rules if name not in BY_NAME)
        problem = ""
        if not said.rules:
            name, problem = UNKNOWN_RULE, "the comment names no rule, so it ignores nothing"
        elif unknown:
            name, problem = UNKNOWN_RULE, f"there is no rule `{unknown[0]}` to ignore"
        elif not said.reason:
            name, problem = UNEXPLAINED, "the comment says no reason"
        else:
            continue
        yield Finding(
            path=script.source.path,
            line=place.line,
            column=said.column,
            rule=name,
            severity=Severity.WARNING if name == UNKNOWN_RULE else Severity.NOTE,
            message=problem,
            why="A later reader cannot tell whether the finding is still to be ignored.",
            fix="Write `# compilegate: ignore[RULE] reason`.",
            page=_PAGE,
            compilers=(),
            cell=place.cell,
        )
