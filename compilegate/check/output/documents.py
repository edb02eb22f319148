"""Findings as JSON, for programs: every fact of each, and what was not read."""

from __future__ import annotations

import json
from typing import Any

from compilegate.check.findings import Checked, Finding, Severity

VERSION = 1


def json_text(checked: Checked) -> str:
    """The whole check as one JSON document."""
    document = {
        "version": VERSION,
        "compilers": list(checked.compilers),
        "files": checked.files,
        "findings": [_finding(finding) for finding in checked.findings],
        "suppressed": [
            {**_finding(finding), "reason": finding.suppressed} for finding in checked.suppressed
        ],
        "unread": [
            {"path": unread.path.as_posix(), "reason": unread.reason} for unread in checked.unread
        ],
        "counts": {
            severity.word: sum(finding.severity is severity for finding in checked.findings)
            for severity in sorted(Severity, reverse=True)
        },
    }
    return json.dumps(document, indent=2)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "path": finding.path.as_posix(),
        "cell": finding.cell,
        "line": finding.line,
        "column": finding.column,
        "end_line": finding.end_line,
        "rule": finding.rule,
        "severity": finding.severity.word,
        "message": finding.message,
        "why": finding.why,
        "fix": finding.fix,
        "page": finding.page,
        "compilers": list(finding.compilers),
    }
