"""`rate(5 minutes)`: every so often, counted from when the schedule was made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from compilegate.workload.schedule.errors import ExpressionError

UNITS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
LONGEST = timedelta(days=3650)


@dataclass(frozen=True)
class Rate:
    """A fixed time between two starts; a day is 24 hours, also when clocks change."""

    interval: timedelta


def read_rate(content: str) -> Rate:
    """Read what stands between the parentheses. Raises ExpressionError."""
    match = re.fullmatch(r"([0-9]+) ([a-z]+)", content)
    unit = match and match[2].removesuffix("s")
    if match is None or unit not in UNITS:
        raise ExpressionError(
            f"found rate({content}), allowed: rate(NUMBER UNIT), as in rate(1 day) or "
            "rate(12 hours), with minutes, hours or days"
        )
    number, plural = int(match[1]), match[2].endswith("s")
    if number < 1 or match[1].startswith("0"):
        raise ExpressionError(f"found {match[1]} in rate({content}), allowed: 1 or more")
    if plural == (number == 1):
        right = unit if number == 1 else f"{unit}s"
        raise ExpressionError(f"found rate({content}), allowed: rate({number} {right})")
    if number > LONGEST // UNITS[str(unit)]:
        raise ExpressionError(f"found rate({content}), allowed: {LONGEST.days} days at most")
    return Rate(number * UNITS[str(unit)])
