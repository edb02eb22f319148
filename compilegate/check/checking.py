"""Check scripts: read them, find out what runs where, and hold every rule against them."""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compilegate.check.names import Project, Script
from compilegate.check.reading import Read, Unread, read_paths
from compilegate.check.rules import BY_NAME, RULES
from compilegate.check.rules.base import Analysis, Found, Rule, Severity, View
from compilegate.check.rules.estimators import estimators
from compilegate.rules import COMPILERS

UNKNOWN_RULE = "unknown-rule"
UNEXPLAINED = "unexplained-ignore"
_DEPTH = 5_000


@dataclass(frozen=True)
class Finding:
    """One place in a script where a rule does not hold."""

    path: Path
    """The file, as it was named or found."""

    line: int
    """Counted from 1; in a notebook within its cell."""

    column: int
    """Counted from 1."""

    rule: str
    severity: Severity

    message: str
    """What was found here: one sentence."""

    why: str
    fix: str

    page: str
    """The address of the page that says so."""

    compilers: tuple[str, ...]
    """Which of the compilers that were asked about it concerns."""

    cell: int | None = None
    """In a notebook: which cell, counted from 1 over all cells."""

    end_line: int | None = None
    suppressed: str | None = None
    """The reason that a comment in the script gives for ignoring it; None where none does."""

    @property
    def place(self) -> str:
        """Where it is, as terminals and editors link it."""
        if self.cell is None:
            return f"{self.path}:{self.line}:{self.column}"
        return f"{self.path}: cell {self.cell}, line {self.line}"


@dataclass(frozen=True)
class Coverage:
    """What was understood of the scripts, so that nobody takes silence for an all-clear."""

    loops: tuple[str, ...]
    """Each training loop: where it begins and ends, or the call that runs a framework's."""

    followed: tuple[str, ...]
    """The functions of the files that were followed from there."""

    not_followed: tuple[str, ...]
    """What the steps call that lies in no file of the check."""

    compiled: int
    """How many uses of torch.compile."""

    jobs: int
    """How many estimators."""

    @property
    def understood(self) -> bool:
        """Whether there was anything to hold the rules against."""
        return bool(self.loops or self.compiled or self.jobs)


@dataclass(frozen=True)
class Checked:
    """What a check of some paths found."""

    findings: tuple[Finding, ...]
    """By file and line; without those that a comment suppresses."""

    suppressed: tuple[Finding, ...]
    unread: tuple[Unread, ...]
    files: int
    """How many files were read."""

    compilers: tuple[str, ...]
    coverage: Coverage

    @property
    def gravest(self) -> Severity | None:
        """The severity of the gravest finding; None without findings."""
        return max((finding.severity for finding in self.findings), default=None)


def check_paths(
    paths: Sequence[Path],
    compilers: tuple[str, ...] = COMPILERS,
    rules: Iterable[Rule] = RULES,
) -> Checked:
    """Check files and folders for some compilers. Nothing of them is imported or run."""
    with deep_trees():
        return check_sources(read_paths(paths), compilers, rules)


@contextmanager
def deep_trees() -> Iterator[None]:
    """Let trees be deep, for long chains of `+` in scripts with tables; and leave the collector of
    circles off, since trees live to the end and have nothing to free."""
    was_on, limit = gc.isenabled(), sys.getrecursionlimit()
    gc.disable()
    sys.setrecursionlimit(max(limit, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if was_on:
            gc.enable()


def check_sources(
    read: Read, compilers: tuple[str, ...] = COMPILERS, rules: Iterable[Rule] = RULES
) -> Checked:
    """Check what was read."""
    chosen = [each for each in rules if set(each.compilers) & set(compilers)]
    analysis = Analysis(Project(read.sources, read.root))
    findings: list[Finding] = []
    suppressed: list[Finding] = []
    for script in analysis.project.scripts:
        view = View(script, analysis, compilers)
        comments = waivers(script)
        for finding in _findings(view, chosen, comments):
            (findings if finding.suppressed is None else suppressed).append(finding)
        findings += _about_comments(script, comments)
    return Checked(
        findings=tuple(sorted(findings, key=_order)),
        suppressed=tuple(sorted(suppressed, key=_order)),
        unread=read.unread,
        files=len(analysis.project.scripts),
        compilers=compilers,
        coverage=_coverage(analysis),
    )


def _order(finding: Finding) -> tuple[str, int, int, int, str]:
    return (str(finding.path), finding.cell or 0, finding.line, finding.column, finding.rule)


def _coverage(analysis: Analysis) -> Coverage:
    loops: list[str] = []
    for step in analysis.steps.found:
        source = step.script.source
        place, end = source.place(step.node.lineno), step.node.end_lineno or step.node.lineno
        cell = f" cell {place.cell}," if place.cell is not None else ""
        where = f"{source.path}:{cell} {place.line}" if cell else f"{source.path}:{place.line}"
        if isinstance(step.node, ast.Call):
            where += f" ({ast.unparse(step.node.func)}: the loop of a framework)"
        else:
            where += f"-{source.place(end).line}"
            name = getattr(step.node, "name", "")
            where += f" ({name}: what calls it is in no file)" if step.sort == "function" else ""
        loops.append(where)
    views = [View(each, analysis, COMPILERS) for each in analysis.launchers]
    return Coverage(
        loops=tuple(loops),
        followed=tuple(dict.fromkeys(each.full_name for each in analysis.steps.followed)),
        not_followed=tuple(analysis.steps.not_followed),
        compiled=len(analysis.regions.found),
        jobs=sum(1 for view in views for _ in estimators(view)),
    )


def _findings(view: View, rules: Iterable[Rule], comments: dict[int, Waiver]) -> Iterator[Finding]:
    for rule in rules:
        seen: set[int] = set()
        for found in rule.find(view):
            line = getattr(found.node, "lineno", 1)
            if line not in seen:  # one place, one finding
                seen.add(line)
                yield _finding(view, rule, found, comments)


def _finding(view: View, rule: Rule, found: Found, comments: dict[int, Waiver]) -> Finding:
    line = getattr(found.node, "lineno", 1)
    source = view.script.source
    place, end = source.place(line), source.place(getattr(found.node, "end_lineno", None) or line)
    waiver = _waived(view.script, found.node, rule.name, comments)
    return Finding(
        path=source.path,
        line=place.line,
        column=getattr(found.node, "col_offset", 0) + 1,
        rule=rule.name,
        severity=found.severity or rule.severity,
        message=found.message,
        why=rule.why,
        fix=rule.fix,
        page=rule.page,
        compilers=tuple(name for name in rule.compilers if name in view.compilers),
        cell=place.cell,
        end_line=end.line if end.cell == place.cell else place.line,
        suppressed=None if waiver is None else waiver.reason,
    )


# ---- comments that say why a finding is to be ignored


@dataclass(frozen=True)
class Waiver:
    """What one comment says: `# compilegate: ignore[RULE] reason`."""

    rules: frozenset[str]
    """The rules that it names; none where it names no rule, which ignores nothing."""

    reason: str
    line: int
    column: int


_COMMENT = re.compile(r"#\s*compilegate:\s*ignore(?:\[([^\]]*)\])?\s*(.*)$")


def waivers(script: Script) -> dict[int, Waiver]:
    """The comments of a script by the line they speak of.

    A comment at the end of a line speaks of that line; on a line of its own, of the next line with
    code.
    """
    found: dict[int, Waiver] = {}
    lines = script.source.lines
    for number, line in enumerate(lines, start=1):
        match = _COMMENT.search(line) if "compilegate:" in line else None
        if match is None or _in_a_text(script, number, match.start()):
            continue
        rules = frozenset(name.strip() for name in (match[1] or "").split(",") if name.strip())
        target = number
        if not line[: match.start()].strip():
            later = enumerate(lines[number:], start=number + 1)
            code = (at for at, text in later if text.strip() and text.lstrip()[0] != "#")
            target = next(code, number)
        before = found.get(target)
        reason = match[2].strip(" -:")
        if before is not None:
            rules, reason = before.rules | rules, before.reason or reason
        found[target] = Waiver(rules, reason, number, match.start() + 1)
    return found


def _in_a_text(script: Script, line: int, column: int) -> bool:
    """Whether a place is inside a string: what stands there is no comment."""
    return any(
        isinstance(node, ast.Constant | ast.JoinedStr)
        and isinstance(getattr(node, "value", ""), str)
        and (node.lineno, node.col_offset) <= (line, column)
        and (line, column) < (node.end_lineno or line, node.end_col_offset or 0)
        for node in ast.walk(script.source.tree)
    )


def _waived(script: Script, node: ast.AST, rule: str, comments: dict[int, Waiver]) -> Waiver | None:
    """The comment that speaks of a node: on one of its own lines, or of the line it begins in."""
    if not comments:
        return None
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", None) or 1
    if isinstance(node, ast.stmt) and hasattr(node, "body"):
        last = first  # of a loop or function the first line, not all that is in it
    statement = script.statement(node)
    if statement is not None:
        first = min(first, statement.lineno)
        if not hasattr(statement, "body"):
            last = max(last, statement.end_lineno or last)
    said = (comments.get(line) for line in range(first, last + 1))
    return next((each for each in said if each is not None and rule in each.rules), None)


def _about_comments(script: Script, comments: dict[int, Waiver]) -> Iterator[Finding]:
    """What is wrong with the comments themselves."""
    for said in comments.values():
        place = script.source.place(said.line)
        unknown = sorted(name for name in said.rules if name not in BY_NAME)
        name = UNKNOWN_RULE
        if not said.rules:
            problem = "the comment names no rule, so it ignores nothing"
        elif unknown:
            problem = f"there is no rule `{unknown[0]}` to ignore"
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
            page="docs/check.md",
            compilers=(),
            cell=place.cell,
        )
