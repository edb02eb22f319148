"""ISO 8601 durations as SageMaker's CacheConfig takes them: "P30D", "30d", "T16m", "30dT5h"."""

from __future__ import annotations

import re
from datetime import timedelta

_DURATION = re.compile(
    r"P?(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?",
    re.IGNORECASE | re.ASCII,
)

# A duration has no calendar to count on, so a year and a month have fixed lengths.
_DAYS = {"years": 365, "months": 30, "weeks": 7, "days": 1}


def parse_duration(text: str) -> timedelta:
    """The length of an ISO 8601 duration; the leading P may be left out, case does not matter.

    Raises ValueError if `text` is not a duration or too long to be one.
    """
    match = _DURATION.fullmatch(text)
    parts = {} if match is None else {k: int(v) for k, v in match.groupdict().items() if v}
    if not parts:
        raise ValueError(f"{text!r} is not an ISO 8601 duration such as P30D or PT12H")
    days = sum(parts.get(unit, 0) * length for unit, length in _DAYS.items())
    try:
        return timedelta(
            days=days,
            hours=parts.get("hours", 0),
            minutes=parts.get("minutes", 0),
            seconds=parts.get("seconds", 0),
        )
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than a duration can be") from error


def format_duration(length: timedelta) -> str:
    """The shortest text that `parse_duration` reads as this length, in days down to seconds."""
    hours, rest = divmod(length.seconds, 3600)
    days = f"{length.days}D" if length.days else ""
    parts = zip((hours, *divmod(rest, 60)), "HMS", strict=True)
    time = "".join(f"{count}{unit}" for count, unit in parts if count)
    return f"P{days}T{time}" if time else f"P{days or '0D'}"
