"""Mend what is mechanical in scripts. Nothing is written here: the caller gets the new texts."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compilegate.check.checking import check_sources
from compilegate.check.findings import Finding, Unread
from compilegate.check.fixing.plans import PLANS, Edit, edits
from compilegate.check.fixing.rewriting import UnparsedByFixError, rewritten
from compilegate.check.reading.discovery import Read, read_paths
from compilegate.check.regions.compiled import Regions
from compilegate.check.regions.steps import Steps
from compilegate.check.rules.rule import Analysis, View
from compilegate.check.script.project import Project
from compilegate.rules import COMPILERS


@dataclass(frozen=True)
class Fixed:
    """A script as it is, and as it would be."""

    path: Path
    before: bytes
    after: bytes
    edits: tuple[Edit, ...]

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        return "".join(
            difflib.unified_diff(
                self.before.decode("utf-8", "replace").splitlines(keepends=True),
                self.after.decode("utf-8", "replace").splitlines(keepends=True),
                str(self.path),
                str(self.path),
            )
        )

    @property
    def sentence(self) -> str:
        """One line for a terminal."""
        rules = sorted({edit.rule for edit in self.edits})
        count = len(self.edits)
        return f"{self.path}: {count} fixed ({', '.join(rules)})"


@dataclass(frozen=True)
class Fixes:
    """What can be mended in some paths."""

    fixed: tuple[Fixed, ...]
    not_fixed: tuple[Unread, ...]
    """Files with findings that have a fix, into which it could not be written."""


def fix_paths(paths: Sequence[Path], compilers: tuple[str, ...] = COMPILERS) -> Fixes:
    """The mechanical fixes for files and folders. Notebooks and ignored findings stay."""
    return fix_sources(read_paths(paths), compilers)


def fix_sources(read: Read, compilers: tuple[str, ...] = COMPILERS) -> Fixes:
    """The mechanical fixes for what was read."""
    checked = check_sources(read, compilers)
    wanted: dict[Path, list[Finding]] = defaultdict(list)
    for finding in checked.findings:
        if finding.rule in PLANS and finding.cell is None:
            wanted[finding.path].append(finding)
    if not wanted:
        return Fixes((), ())
    project = Project(read.sources, read.root)
    analysis = Analysis(project, Steps(project), Regions(project))
    fixed: list[Fixed] = []
    not_fixed: list[Unread] = []
    for script in project.scripts:
        path = script.source.path
        if script.source.places or path not in wanted:
            continue
        places = frozenset((each.rule, each.line, each.column) for each in wanted[path])
        planned = list(edits(View(script, analysis, compilers), places))
        if not planned:
            continue
        before = path.read_bytes()
        try:
            after, made = rewritten(before, planned)
        except UnparsedByFixError as error:
            not_fixed.append(Unread(path, f"not fixed: {error}"))
            continue
        if made and after != before:
            fixed.append(Fixed(path, before, after, made))
    return Fixes(tuple(fixed), tuple(not_fixed))
