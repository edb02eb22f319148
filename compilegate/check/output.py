"""What a check found: as text, as JSON, as SARIF 2.1.0, and as GitHub's annotations."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from compilegate.check.checking import Checked, Coverage, Finding
from compilegate.check.rules.base import Severity
from compilegate.rules import COMPILERS

NOTHING = "no training loop found in these files: nothing was checked"
_MOST_NAMED = 4


# ---- text


def text_of(checked: Checked) -> str:
    """What was read, the findings, and one line that sums up. Why and fix stand once for a rule."""
    return "\n".join(_lines(checked))


def _lines(checked: Checked) -> Iterator[str]:
    yield coverage_line(checked)
    told: set[str] = set()
    for finding in checked.findings:
        yield f"{finding.place}: {finding.severity.word}: {finding.message} [{finding.rule}]"
        if finding.rule not in told:
            told.add(finding.rule)
            yield f"    why: {finding.why}"
            yield f"    fix: {finding.fix}"
            yield f"    see: {finding.page}"
    if checked.coverage.understood:
        yield summary(checked)


def coverage_line(checked: Checked) -> str:
    """Which loops were found, what was followed from there and what not, and for which compilers
    the rules were held against it."""
    found = checked.coverage
    rules = "every compiler" if checked.compilers == COMPILERS else ", ".join(checked.compilers)
    if not found.understood:
        return NOTHING
    parts = [_loops(found)]
    if found.compiled:
        parts.append(_several(found.compiled, "use") + " of torch.compile")
    if found.jobs:
        parts.append(_several(found.jobs, "job") + " for SageMaker")
    read = f"read: {', '.join(parts)}"
    if found.loops:
        read += f"; followed: {_named(found.followed) or 'no function of these files'}"
    if found.not_followed:
        read += f"; not followed: {_named(found.not_followed)}"
    return f"{read}; rules of {rules}"


def _loops(found: Coverage) -> str:
    if not found.loops:
        return "no training loop"
    several = "the training loop" if len(found.loops) == 1 else f"{len(found.loops)} training loops"
    return f"{several} {_named(found.loops)}"


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def summary(checked: Checked) -> str:
    """How much was read and found."""
    ignored = f"; {len(checked.suppressed)} ignored by comments" if checked.suppressed else ""
    counts = ", ".join(_several(count, word) for word, count in _counts(checked).items() if count)
    return f"{_several(checked.files, 'file')} checked: {counts or 'no findings'}{ignored}"


def _counts(checked: Checked) -> dict[str, int]:
    return {
        severity.word: sum(finding.severity is severity for finding in checked.findings)
        for severity in sorted(Severity, reverse=True)
    }


# ---- JSON


def json_of(checked: Checked) -> str:
    """The whole check as one JSON document, for programs."""
    document = {
        "version": 2,
        "compilers": checked.compilers,
        "files": checked.files,
        "read": asdict(checked.coverage),
        "findings": [_document(finding) for finding in checked.findings],
        "suppressed": [_document(finding) for finding in checked.suppressed],
        "unread": [asdict(unread) for unread in checked.unread],
        "counts": _counts(checked),
    }
    return json.dumps(document, indent=2, default=Path.as_posix)


def _document(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "severity": finding.severity.word}


# ---- SARIF

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif_of(checked: Checked, version: str) -> str:
    """The whole check as one SARIF log. What a comment ignores is in it, as suppressed."""
    every = (*checked.findings, *checked.suppressed)
    rules = list({finding.rule: finding for finding in every}.values())
    numbers = {finding.rule: number for number, finding in enumerate(rules)}
    notes = [_note(each.sentence, each.path) for each in checked.unread]
    driver = {
        "name": "compilegate check",
        "semanticVersion": version,
        "rules": [_rule(finding) for finding in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [*notes, _note(coverage_line(checked))],
            }
        ],
        "results": [_result(finding, numbers[finding.rule]) for finding in every],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(finding: Finding) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": finding.rule,
        "shortDescription": {"text": finding.rule.replace("-", " ")},
        "fullDescription": {"text": finding.why},
        "help": {"text": f"{finding.fix} See {finding.page}"},
        "defaultConfiguration": {"level": _LEVELS[finding.severity]},
    }
    if finding.page.startswith("https://"):
        described["helpUri"] = finding.page
    return described


def _result(finding: Finding, number: int) -> dict[str, Any]:
    # A notebook is one artifact; its lines are those of a cell, so a message says which.
    place = {} if finding.cell is None else {"cell": finding.cell, "line": finding.line}
    region = {"startLine": finding.line, "startColumn": finding.column}
    if (finding.end_line or 0) > finding.line:
        region["endLine"] = finding.end_line or 0
    artifact = {"artifactLocation": {"uri": _address(finding.path)}}
    physical = {**artifact, "region": {"startLine": 1} if place else region}
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{_in_cell(finding)}{finding.message}. {finding.fix}"},
        "locations": [{"physicalLocation": physical}],
        "properties": {"compilers": finding.compilers, "page": finding.page, **place},
    }
    if finding.suppressed is not None:
        said = {"kind": "inSource", "justification": finding.suppressed}
        result["suppressions"] = [{key: each for key, each in said.items() if each}]
    return result


def _in_cell(finding: Finding) -> str:
    return "" if finding.cell is None else f"cell {finding.cell}, line {finding.line}: "


def _note(text: str, path: Path | None = None) -> dict[str, Any]:
    note: dict[str, Any] = {"level": "note", "message": {"text": text}}
    if path is not None:
        place = {"artifactLocation": {"uri": _address(path)}}
        note["locations"] = [{"physicalLocation": place}]
    return note


def _address(path: Path) -> str:
    """A path as a URI; below the current folder relative to it, as code hosts need it."""
    shown = _shown(path)
    return shown.as_uri() if shown.is_absolute() else quote(shown.as_posix())


def _shown(path: Path) -> Path:
    absolute = Path(os.path.normpath(path.absolute()))
    here = Path.cwd()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else absolute


# ---- GitHub

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def annotations_of(checked: Checked) -> str:
    """Workflow commands, which GitHub shows beside the lines of a pull request; then a summary."""
    lines = [_annotation(finding) for finding in checked.findings]
    for unread in checked.unread:
        file = _property(str(_shown(unread.path)))
        lines.append(f"::notice file={file},title=not checked::{_data(unread.sentence)}")
    lines.append(_data(coverage_line(checked)))
    if checked.coverage.understood:
        lines.append(_data(summary(checked)))
    return "\n".join(lines)


def _annotation(finding: Finding) -> str:
    facts = [f"file={_property(str(_shown(finding.path)))}"]
    if finding.cell is None:  # else the file's own lines are JSON
        facts += [f"line={finding.line}", f"col={finding.column}"]
        if (finding.end_line or 0) > finding.line:
            facts.append(f"endLine={finding.end_line}")
    facts.append(f"title={_property(finding.rule)}")
    said = f"{_in_cell(finding)}{finding.message}\n{finding.fix}\n{finding.page}"
    return f"::{_COMMANDS[finding.severity]} {','.join(facts)}::{_data(said)}"


def _data(text: str) -> str:
    """Text as a workflow command takes it; a script's own text can begin no other command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
