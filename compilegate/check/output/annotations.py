"""Findings as GitHub's workflow commands, which it shows beside the lines of a pull request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from compilegate.check.findings import Checked, Finding, Severity
from compilegate.check.output.text import summary

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def annotation_lines(checked: Checked) -> Iterator[str]:
    """A workflow command for each finding and each file that was not read; then a summary."""
    for finding in checked.findings:
        yield _annotation(finding)
    for unread in checked.unread:
        file = _property(_shown(unread.path))
        yield f"::notice file={file},title=not checked::{_data(unread.sentence)}"
    yield _data(summary(checked))


def _annotation(finding: Finding) -> str:
    facts = [f"file={_property(_shown(finding.path))}"]
    place = ""
    if finding.cell is None:
        facts += [f"line={finding.line}", f"col={finding.column}"]
        if finding.end_line is not None and finding.end_line > finding.line:
            facts.append(f"endLine={finding.end_line}")
    else:  # the file's own lines are JSON
        place = f"cell {finding.cell}, line {finding.line}: "
    facts.append(f"title={_property(finding.rule)}")
    said = f"{place}{finding.message}\n{finding.fix}\n{finding.page}"
    return f"::{_COMMANDS[finding.severity]} {','.join(facts)}::{_data(said)}"


def _shown(path: Path) -> str:
    absolute = Path(os.path.normpath(path.absolute()))
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)


def _data(text: str) -> str:
    """Text as a workflow command takes it; a script's own text can begin no other command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
