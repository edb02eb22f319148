"""Why a step failed: a value that is passed on whole, and laid out where people read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StepFailure:
    """Why one step failed."""

    sentence: str
    """What went wrong. A program's own words, or the service's, may have several lines."""
    log: Path | str | None = None
    """The whole output: a file here, or the address of a page."""
    last_lines: tuple[str, ...] = ()
    """What the job printed last, oldest first."""
    unread: str | None = None
    """Why the last lines are missing, if the log could not be read."""

    @property
    def text(self) -> str:
        """All of it, for people."""
        return "\n".join(self._parts())

    @property
    def lines(self) -> tuple[str, ...]:
        """The same, with each line by itself, whatever the program ended its lines with."""
        return tuple(line for part in self._parts() for line in part.splitlines())

    @property
    def headline(self) -> str:
        """Its first line, for where there is room for one."""
        return next(iter(self.lines), "")

    def _parts(self) -> list[str]:
        parts = [self.sentence]
        if isinstance(self.log, Path):
            parts = [f"{self.sentence}; log: {self.log}"]
        elif self.log is not None:
            parts.append(f"log: {self.log}")  # the address of a page is long
        parts += [f"  {line}" for line in self.last_lines]
        if self.unread is not None:
            parts.append(f"({self.unread})")
        return parts
