"""Check scripts: read them, find out what runs where, and hold every rule against them."""

from __future__ import annotations

import ast
import gc
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compilegate.check.names import Project, Script
from compilegate.check.reading import Read, Unread, read_paths
from compilegate.check.rules import FINDERS
from compilegate.check.rules.base import Analysis, View
from compilegate.check.rules.estimators import estimators
from compilegate.check.steps import Step
from compilegate.rules import COMPILERS, Severity, table

UNKNOWN_RULE = "unknown-rule"
UNEXPLAINED = "unexplained-ignore"
_DEPTH = 5_000


@dataclass(frozen=True)
class Finding:
    """One place in a script where a rule does not hold."""

    path: Path  # the file, as it was named or found
    line: int  # counted from 1; in a notebook within its cell
    column: int  # counted from 1
    rule: str
    severity: Severity

    message: str  # what was found here: one sentence
    why: str
    fix: str

    page: str  # the address of the page that says so
    compilers: tuple[str, ...]  # which compilers of the check it concerns
    cell: int | None = None  # in a notebook: which cell, counted from 1 over all cells
    end_line: int | None = None
    suppressed: str | None = None
    """The reason that a comment in the script gives for ignoring it; None where none does."""

    @property
    def place(self) -> str:
        """The place, as terminals and editors link it."""
        if self.cell is None:
            return f"{self.path}:{self.line}:{self.column}"
        return f"{self.path}: cell {self.cell}, line {self.line}"

    @property
    def last_line(self) -> int | None:
        """The line where it ends, if that is a later one."""
        return self.end_line if (self.end_line or 0) > self.line else None


@dataclass(frozen=True)
class Coverage:
    """What was understood of the scripts, so that nobody takes silence for an all-clear."""

    loops: tuple[str, ...]
    """Each training loop: where it begins and ends, or the call that runs a framework's."""

    followed: tuple[str, ...]  # the functions of the files that were followed from there
    not_followed: tuple[str, ...]  # what the steps call that lies in no file of the check
    compiled: int  # how many uses of torch.compile
    jobs: int  # how many estimators


@dataclass(frozen=True)
class CheckResult:
    """The result of a check."""

    findings: tuple[Finding, ...]  # by file and line; without those that a comment suppresses
    suppressed: tuple[Finding, ...]
    unread: tuple[Unread, ...]
    files: int  # how many files were read
    compilers: tuple[str, ...]
    coverage: Coverage

    @property
    def understood(self) -> bool:
        """Whether there was anything to hold the rules against."""
        read = self.coverage
        return bool(read.loops or read.compiled or read.jobs or self.findings or self.suppressed)


def check_paths(paths: Sequence[Path], compilers: tuple[str, ...] = COMPILERS) -> CheckResult:
    """Check files and folders for some compilers. Nothing of them is imported or run."""
    with deep_trees():
        read = read_paths(paths)
        return check_sources(read, Analysis(Project(read.sources, read.root)), compilers)


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


def check_sources(read: Read, analysis: Analysis, compilers: tuple[str, ...]) -> CheckResult:
    found: list[Finding] = []
    for script in analysis.project.scripts:
        comments = waivers(script)
        found += _findings(View(script, analysis, compilers), comments)
        found += _about_comments(script, comments)
    found.sort(key=lambda x: (str(x.path), x.cell or 0, x.line, x.column, x.rule))
    launchers = (View(each, analysis, COMPILERS) for each in analysis.launchers)
    return CheckResult(
        findings=tuple(each for each in found if each.suppressed is None),
        suppressed=tuple(each for each in found if each.suppressed is not None),
        unread=read.unread,
        files=len(analysis.project.scripts),
        compilers=compilers,
        coverage=Coverage(
            loops=tuple(map(_loop, analysis.steps.found)),
            followed=tuple(dict.fromkeys(each.full_name for each in analysis.steps.followed)),
            not_followed=tuple(analysis.steps.not_followed),
            compiled=len(analysis.regions.found),
            jobs=sum(1 for view in launchers for _ in estimators(view)),
        ),
    )


def _loop(step: Step) -> str:
    source, node = step.script.source, step.node
    place, end = source.place(node.lineno), source.place(node.end_lineno or node.lineno)
    cell = f" cell {place.cell}, " if place.cell is not None else ""
    where = f"{source.path}:{cell}{place.line}"
    if isinstance(node, ast.Call):
        return f"{where} ({ast.unparse(node.func)}: the loop of a framework)"
    name = getattr(node, "name", "")
    unknown = f" ({name}: what calls it is in no file)" if step.sort == "function" else ""
    return f"{where}-{end.line}{unknown}"


def _findings(view: View, comments: dict[int, Waiver]) -> Iterator[Finding]:
    source = view.script.source
    for rule in table().rules.values():
        compilers = tuple(each for each in rule.compilers if each in view.compilers)
        seen: set[int] = set()
        for found in FINDERS[rule.name](view) if compilers else ():
            line = getattr(found.node, "lineno", 1)
            if line in seen:  # one place, one finding
                continue
            seen.add(line)
            place = source.place(line)
            end = source.place(getattr(found.node, "end_lineno", None) or line)
            waiver = _waived(view.script, found.node, rule.name, comments)
            yield Finding(
                path=source.path,
                line=place.line,
                column=getattr(found.node, "col_offset", 0) + 1,
                rule=rule.name,
                severity=found.severity or rule.severity,
                message=found.message,
                why=rule.why,
                fix=rule.fix,
                page=rule.page,
                compilers=compilers,
                cell=place.cell,
                end_line=end.line if end.cell == place.cell else place.line,
                suppressed=None if waiver is None else waiver.reason,
            )


# ---- comments that say why a finding is to be ignored


@dataclass(frozen=True)
class Waiver:
    """A comment `# compilegate: ignore[RULE] reason`."""

    rules: frozenset[str]  # none where it names no rule, which ignores nothing
    reason: str
    line: int
    column: int


_COMMENT = re.compile(r"#\s*compilegate:\s*ignore(?:\[([^\]]*)\])?\s*(.*)$")


def waivers(script: Script) -> dict[int, Waiver]:
    """The comments of a script by the line they speak of: their own, or the next with code."""
    found: dict[int, Waiver] = {}
    lines = script.source.lines
    commented = any("compilegate:" in line for line in lines)
    texts = (f"{line}\n" for line in lines)
    for token in tokenize.generate_tokens(texts.__next__) if commented else ():
        match = _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
        if match is None:
            continue
        (number, column), target = token.start, token.start[0]
        rules = frozenset(name.strip() for name in (match[1] or "").split(",") if name.strip())
        reason = match[2].strip(" -:")
        if not token.line[:column].strip():
            later = enumerate(lines[number:], start=number + 1)
            code = (at for at, text in later if text.strip() and text.lstrip()[0] != "#")
            target = next(code, number)
        if target in found:
            rules, reason = found[target].rules | rules, found[target].reason or reason
        found[target] = Waiver(rules, reason, number, column + 1)
    return found


def _waived(script: Script, node: ast.AST, rule: str, comments: dict[int, Waiver]) -> Waiver | None:
    """The comment that speaks of a node: on one of its lines, or of the line it begins in."""
    lines: set[int] = set()
    for each in (node, script.statement(node)) if comments else ():
        first = getattr(each, "lineno", 1)
        block = isinstance(each, ast.stmt) and hasattr(each, "body")  # of a loop the first line
        last = first if block else getattr(each, "end_lineno", None) or first
        lines.update(range(first, last + 1))
    found = (comments[line] for line in sorted(lines) if line in comments)
    return next((each for each in found if rule in each.rules), None)


def _about_comments(script: Script, comments: dict[int, Waiver]) -> Iterator[Finding]:
    """Findings about the comments themselves."""
    for waiver in comments.values():
        place = script.source.place(waiver.line)
        unknown = sorted(name for name in waiver.rules if name not in FINDERS)
        named = bool(waiver.rules) and not unknown
        if named and waiver.reason:
            continue
        problem = "the comment says no reason"
        if not named:
            problem = "the comment names no rule, so it ignores nothing"
            problem = f"there is no rule `{unknown[0]}` to ignore" if unknown else problem
        yield Finding(
            path=script.source.path,
            line=place.line,
            column=waiver.column,
            rule=UNEXPLAINED if named else UNKNOWN_RULE,
            severity=Severity.NOTE if named else Severity.WARNING,
            message=problem,
            why="A later reader cannot tell whether the finding is still to be ignored.",
            fix="Write `# compilegate: ignore[RULE] reason`.",
            page="docs/check.md",
            compilers=(),
            cell=place.cell,
        )
