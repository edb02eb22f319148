"""Findings for a terminal: a line each with place and rule, then why and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from compilegate.check.findings import Checked, Finding, counted


def text_lines(checked: Checked) -> Iterator[str]:
    """The findings, and one line that sums up. Why and fix are told once for each rule."""
    told: set[str] = set()
    for finding in checked.findings:
        yield first_line(finding)
        if finding.rule not in told:
            told.add(finding.rule)
            yield f"    why: {finding.why}"
            yield f"    fix: {finding.fix}"
            yield f"    see: {finding.page}"
    yield summary(checked)


def first_line(finding: Finding) -> str:
    """Place, severity, rule and what was found."""
    return f"{finding.place}: {finding.severity.word}: {finding.message} [{finding.rule}]"


def summary(checked: Checked) -> str:
    """How much was read and found."""
    files = f"{checked.files} file{'' if checked.files == 1 else 's'}"
    ignored = f"; {len(checked.suppressed)} ignored by comments" if checked.suppressed else ""
    return (
        f"{files} checked for {', '.join(checked.compilers)}: {counted(checked.findings)}{ignored}"
    )
