"""What a check found: as text, as JSON, as SARIF 2.1.0, and as GitHub's annotations."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from compilegate.check.checking import CheckResult, Finding
from compilegate.rules import COMPILERS, Severity

NOTHING = "no training loop found in these files: nothing was checked"
_MOST_NAMED = 4


# ---- text


def text_of(checked: CheckResult) -> str:
    """What was read, the findings, and one line that sums up. Why and fix stand once for a rule."""
    lines = [coverage_line(checked)]
    explained: set[str] = set()
    for each in checked.findings:
        lines.append(f"{each.place}: {each.severity.word}: {each.message} [{each.rule}]")
        if each.rule not in explained:
            explained.add(each.rule)
            lines += [f"    why: {each.why}", f"    fix: {each.fix}", f"    see: {each.page}"]
    if checked.understood:
        lines.append(summary(checked))
    return "\n".join(lines)


def coverage_line(checked: CheckResult) -> str:
    """Which loops were found, what was followed from there, and for which compilers."""
    found = checked.coverage
    if not checked.understood:
        return NOTHING
    several = f"{len(found.loops)} training loops" if found.loops[1:] else "the training loop"
    parts = [f"{several} {_named(found.loops)}" if found.loops else "no training loop"]
    if found.compiled:
        parts.append(_several(found.compiled, "use") + " of torch.compile")
    if found.jobs:
        parts.append(_several(found.jobs, "job") + " for SageMaker")
    read = f"read: {', '.join(parts)}"
    if found.loops:
        read += f"; followed: {_named(found.followed) or 'no function of these files'}"
    if found.not_followed:
        read += f"; not followed: {_named(found.not_followed)}"
    rules = "every compiler" if checked.compilers == COMPILERS else ", ".join(checked.compilers)
    return f"{read}; rules of {rules}"


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def summary(checked: CheckResult) -> str:
    """How much was read and found."""
    ignored = f"; {len(checked.suppressed)} ignored by comments" if checked.suppressed else ""
    counts = ", ".join(_several(count, word) for word, count in _counts(checked).items() if count)
    part = " in what was followed" if checked.coverage.not_followed else ""  # no all-clear for more
    found = counts or f"no findings{part}"
    return f"{_several(checked.files, 'file')} checked: {found}{ignored}"


def _counts(checked: CheckResult) -> dict[str, int]:
    return {
        severity.word: sum(finding.severity is severity for finding in checked.findings)
        for severity in sorted(Severity, reverse=True)
    }


# ---- JSON


def json_of(checked: CheckResult) -> str:
    """The whole check as one JSON document, for programs."""
    findings, suppressed = (
        [{**asdict(each), "severity": each.severity.word} for each in group]
        for group in (checked.findings, checked.suppressed)
    )
    document = {
        "version": 2,
        "compilers": checked.compilers,
        "files": checked.files,
        "read": asdict(checked.coverage),
        "findings": findings,
        "suppressed": suppressed,
        "unread": [asdict(unread) for unread in checked.unread],
        "counts": _counts(checked),
    }
    return json.dumps(document, indent=2, default=Path.as_posix)


# ---- SARIF

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_of(checked: CheckResult, version: str) -> str:
    """The whole check as one SARIF log. What a comment ignores is in it, as suppressed."""
    every = (*checked.findings, *checked.suppressed)
    rules = {finding.rule: _rule(finding) for finding in every}
    numbers = {name: number for number, name in enumerate(rules)}
    notes = [_note(each.sentence, each.path) for each in checked.unread]
    driver = {"name": "compilegate check", "semanticVersion": version, "rules": [*rules.values()]}
    notifications = [*notes, _note(coverage_line(checked))]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
        "results": [_result(finding, numbers[finding.rule]) for finding in every],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(finding: Finding) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": finding.rule,
        "shortDescription": {"text": finding.rule.replace("-", " ")},
        "fullDescription": {"text": finding.why},
        "help": {"text": f"{finding.fix} See {finding.page}"},
        "defaultConfiguration": {"level": finding.severity.word},
    }
    linked = finding.page.startswith("https://")
    return {**described, "helpUri": finding.page} if linked else described


def _result(finding: Finding, number: int) -> dict[str, Any]:
    # A notebook is one artifact; its lines are those of a cell, so a message says which.
    place = {} if finding.cell is None else {"cell": finding.cell, "line": finding.line}
    region = {"startLine": finding.line, "startColumn": finding.column}
    if finding.last_line is not None:
        region["endLine"] = finding.last_line
    physical = {**_artifact(finding.path), "region": {"startLine": 1} if place else region}
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": finding.severity.word,
        "message": {"text": f"{_in_cell(finding)}{finding.message}. {finding.fix}"},
        "locations": [{"physicalLocation": physical}],
        "properties": {"compilers": finding.compilers, "page": finding.page, **place},
    }
    if finding.suppressed is not None:
        reason = {"justification": finding.suppressed} if finding.suppressed else {}
        result["suppressions"] = [{"kind": "inSource", **reason}]
    return result


def _in_cell(finding: Finding) -> str:
    return "" if finding.cell is None else f"cell {finding.cell}, line {finding.line}: "


def _note(text: str, path: Path | None = None) -> dict[str, Any]:
    place = {} if path is None else {"locations": [{"physicalLocation": _artifact(path)}]}
    return {"level": "note", "message": {"text": text}, **place}


def _artifact(path: Path) -> dict[str, Any]:
    """A path as a URI; below the current folder relative to it, as code hosts need it."""
    shown = _shown(path)
    uri = shown.as_uri() if shown.is_absolute() else quote(shown.as_posix())
    return {"artifactLocation": {"uri": uri}}


def _shown(path: Path) -> Path:
    absolute, here = Path(os.path.normpath(path.absolute())), Path.cwd()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else absolute


# ---- GitHub


def annotations_of(checked: CheckResult) -> str:
    """Workflow commands, which GitHub shows beside the lines of a pull request; then a summary."""
    lines = [_annotation(finding) for finding in checked.findings]
    for unread in checked.unread:
        file = _property(str(_shown(unread.path)))
        lines.append(f"::notice file={file},title=not checked::{_data(unread.sentence)}")
    lines.append(_data(coverage_line(checked)))
    lines += [_data(summary(checked))] if checked.understood else []
    return "\n".join(lines)


def _annotation(finding: Finding) -> str:
    facts = {"file": str(_shown(finding.path))}
    if finding.cell is None:  # else the file's own lines are JSON
        facts |= {"line": str(finding.line), "col": str(finding.column)}
        facts |= {} if finding.last_line is None else {"endLine": str(finding.last_line)}
    facts["title"] = finding.rule
    given = ",".join(f"{name}={_property(value)}" for name, value in facts.items())
    text = f"{_in_cell(finding)}{finding.message}\n{finding.fix}\n{finding.page}"
    command = {Severity.NOTE: "notice"}.get(finding.severity, finding.severity.word)
    return f"::{command} {given}::{_data(text)}"


def _data(text: str) -> str:
    """Text as a workflow command takes it; a script's own text can begin no other command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
