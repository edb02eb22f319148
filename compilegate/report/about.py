"""Which execution a page is about: its name, its date, its data, and how to have it again. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from compilegate.gate.observations import Observations
from compilegate.report import formats

_SHORT_COMMIT = 12


@dataclass(frozen=True)
class Span:
    """One step of an execution, from its start to its end."""

    name: str
    arm: str | None
    """The arm that it trained; None for any other step."""
    start: float
    """Seconds after the execution's start."""
    seconds: float
    status: str
    cached: bool = False
    failed: bool = False


@dataclass(frozen=True)
class About:
    """What is known of one execution; None where it is not."""

    execution_id: str | None = None
    started: float | None = None
    """Seconds since the epoch."""
    seconds: float | None = None
    """From its start to its end."""
    data: str | None = None
    """Where the data is, under a name that holds a digest of it."""
    commit: str | None = None
    """The project's, when it was started."""
    changed: bool = False
    """Whether the project had changes that were not committed."""
    command: str | None = None
    """What starts the same again."""
    spans: tuple[Span, ...] = ()
    expected: tuple[tuple[str, str], ...] = ()
    """(arm, what advice expected of it beside what was measured)."""


@dataclass(frozen=True)
class Fact:
    """One thing that a page says of its execution."""

    name: str
    value: str
    moment: str | None = None
    """The same as a date for programs (ISO 8601), where it is one."""
    verbatim: bool = False
    """Whether it is to be copied letter by letter."""


def with_data(about: About | None, observations: Observations) -> About:
    """What is known, with the data's digest by its jobs where nobody says where the data is."""
    about = about or About()
    if about.data is None and observations.data is not None:
        return replace(about, data=f"sha256 {observations.data}")
    return about


def facts_of(about: About) -> list[Fact]:
    """What is known, in the order of reading."""
    found = []
    if about.started is not None:
        moment = datetime.fromtimestamp(about.started, UTC)
        shown = f"{moment.day} {moment:%B %Y, %H:%M} UTC"
        found.append(Fact("Started", shown, moment=moment.isoformat(timespec="seconds")))
    if about.seconds is not None:
        found.append(Fact("Took", formats.seconds(about.seconds)))
    if about.execution_id is not None:
        found.append(Fact("Execution", about.execution_id, verbatim=True))
    if about.commit is not None:
        changed = ", and changes beside it" if about.changed else ""
        found.append(Fact("Commit", f"{about.commit[:_SHORT_COMMIT]}{changed}", verbatim=True))
    if about.data is not None:
        found.append(Fact("Data", about.data, verbatim=True))
    found += [Fact(f"Advice on {arm}", sentence) for arm, sentence in about.expected]
    return found
