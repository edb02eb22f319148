"""Findings as SARIF 2.1.0, which code hosts show beside the lines of a change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from compilegate.check.findings import Checked, Finding, Severity, Unread

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif_text(checked: Checked, version: str) -> str:
    """The whole check as one SARIF log. What a comment ignores is in it, as suppressed."""
    every = (*checked.findings, *checked.suppressed)
    rules = list({finding.rule: finding for finding in every}.values())
    numbers = {finding.rule: number for number, finding in enumerate(rules)}
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
                "toolExecutionNotifications": [_notification(each) for each in checked.unread],
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
    place = f"cell {finding.cell}, line {finding.line}: " if finding.cell is not None else ""
    region: dict[str, Any] = {"startLine": finding.line, "startColumn": finding.column}
    if finding.end_line is not None and finding.end_line > finding.line:
        region["endLine"] = finding.end_line
    location: dict[str, Any] = {"artifactLocation": {"uri": _address(finding.path)}}
    if finding.cell is None:
        location["region"] = region
    else:
        location["region"] = {"startLine": 1}
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{place}{finding.message}. {finding.fix}"},
        "locations": [{"physicalLocation": location}],
        "properties": {"compilers": list(finding.compilers), "page": finding.page},
    }
    if finding.cell is not None:
        result["properties"] |= {"cell": finding.cell, "line": finding.line}
    if finding.suppressed is not None:
        said: dict[str, Any] = {"kind": "inSource"}
        if finding.suppressed:
            said["justification"] = finding.suppressed
        result["suppressions"] = [said]
    return result


def _notification(unread: Unread) -> dict[str, Any]:
    place = {"physicalLocation": {"artifactLocation": {"uri": _address(unread.path)}}}
    return {"level": "note", "message": {"text": unread.sentence}, "locations": [place]}


def _address(path: Path) -> str:
    """A path as a URI; below the current folder relative to it, as code hosts need it."""
    absolute = Path(os.path.normpath(path.absolute()))
    here = Path.cwd()
    if absolute.is_relative_to(here):
        return quote(absolute.relative_to(here).as_posix())
    return absolute.as_uri()
