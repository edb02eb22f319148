"""Who maintains what, until when, and who says so. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

SOON = datetime.timedelta(days=365)
"""An end that is nearer than this is told: a workload is retrained for years."""


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """How long something is maintained, as far as its makers say."""

    what: str | None
    """What it is called, where that is less than what the catalog names."""
    by: str
    status: Literal["maintained", "ending", "ended"]
    until: datetime.date | None
    """The last day; None where no day was found, whatever the status."""
    says: str | None
    """What is known of it, in a clause."""
    instead: str | None
    """What to do instead, in a clause; None while it is maintained."""
    source: str
    date: datetime.date
    """When the source was read."""

    def told(self, title: str, today: datetime.date) -> tuple[str, str] | None:
        """Why not to begin with it today, and the remedy; None while there is nothing to tell."""
        if self.status == "maintained":
            return None
        if self.status == "ending" and self.until is not None and self.until - today > SOON:
            return None
        over = self.status == "ended" or (self.until is not None and self.until < today)
        day = f" {'since' if over else 'on'} {self.until}" if self.until else ""
        state = "is no longer maintained" if over else "is about to end"
        what = f": {self.says}" if self.says else ""
        reason = (
            f"{self.what or title} {state}{day} ({self.by}){what} ({self.source}, read {self.date})"
        )
        return reason, self.instead or "plan for another"


def maintenance_of(entry: Mapping[str, Any]) -> Maintenance:
    """Read a table `maintained` of the catalog."""
    until = entry.get("until")
    return Maintenance(
        what=entry.get("what"),
        by=entry["by"],
        status=entry["status"],
        until=None if until is None else datetime.date.fromisoformat(until),
        says=entry.get("says"),
        instead=entry.get("instead"),
        source=entry["source"],
        date=datetime.date.fromisoformat(entry["date"]),
    )
