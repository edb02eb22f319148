"""What a check says: findings, what could not be read, and both together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path


class Severity(IntEnum):
    """How grave a finding is. `ERROR` is kept for what is wrong whatever else the script does."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """The word people read and write."""
        return self.name.lower()


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
class Unread:
    """A file, or a cell of a notebook, that was not checked, and why."""

    path: Path
    reason: str

    @property
    def sentence(self) -> str:
        """One line for a terminal."""
        return f"{self.path}: {self.reason}"


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

    @property
    def gravest(self) -> Severity | None:
        """The severity of the gravest finding; None without findings."""
        return max((finding.severity for finding in self.findings), default=None)


def counted(findings: Sequence[Finding]) -> str:
    """How many of each severity, in words."""
    counts = [
        (severity, sum(finding.severity is severity for finding in findings))
        for severity in sorted(Severity, reverse=True)
    ]
    words = [
        f"{count} {severity.word}{'s' if count > 1 else ''}" for severity, count in counts if count
    ]
    return ", ".join(words) if words else "nothing found"
