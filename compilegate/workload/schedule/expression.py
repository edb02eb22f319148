"""Schedule expressions as EventBridge Scheduler takes them, time zones, and the next starts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, available_timezones

from compilegate.workload.errors import ScheduleError
from compilegate.workload.schedule.cron import Cron, read_cron

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


def read_expression(text: str) -> Rate | Cron:
    """`rate(...)` or `cron(...)` as types. Raises ScheduleError: what was found, what is allowed.

    `at(...)` is refused, since what starts once is no schedule for training again and again.
    """
    match = re.fullmatch(r"(rate|cron|at)\((.*)\)", text)
    if match is None:
        raise ScheduleError(
            f"found {text!r}, allowed: rate(...) or cron(...), as in rate(7 days) or "
            "cron(0 6 ? * MON *)"
        )
    kind, content = match[1], match[2]
    if kind == "at":
        raise ScheduleError(
            f"found {text}, which starts once and never again, allowed: rate(...) or cron(...); "
            "to train once, start an execution by hand"
        )
    return read_rate(content) if kind == "rate" else read_cron(content)


def read_rate(content: str) -> Rate:
    """Read what stands between the parentheses. Raises ScheduleError."""
    match = re.fullmatch(r"([0-9]+) ([a-z]+)", content)
    unit = match and match[2].removesuffix("s")
    if match is None or unit not in UNITS:
        raise ScheduleError(
            f"found rate({content}), allowed: rate(NUMBER UNIT), as in rate(1 day) or "
            "rate(12 hours), with minutes, hours or days"
        )
    number, plural = int(match[1]), match[2].endswith("s")
    if number < 1 or match[1].startswith("0"):
        raise ScheduleError(f"found {match[1]} in rate({content}), allowed: 1 or more")
    if plural == (number == 1):
        right = unit if number == 1 else f"{unit}s"
        raise ScheduleError(f"found rate({content}), allowed: rate({number} {right})")
    if number > LONGEST // UNITS[str(unit)]:
        raise ScheduleError(f"found rate({content}), allowed: {LONGEST.days} days at most")
    return Rate(number * UNITS[str(unit)])


def next_times(
    expression: Rate | Cron,
    time_zone: ZoneInfo,
    after: datetime,
    count: int,
    until: datetime | None = None,
) -> list[datetime]:
    """The next `count` starts after that moment, in order and in that time zone; fewer if the
    expression has fewer, or fewer `until` a moment.

    A rate counts from when the schedule is created, which is taken to be `after`. As in the
    service, a local time that is skipped in spring is left out, and one that occurs twice in autumn
    counts once.
    """
    if isinstance(expression, Rate):
        moments = (after + number * expression.interval for number in range(1, count + 1))
        starts = (moment.astimezone(time_zone) for moment in moments)
    else:
        starts = islice(_starts(expression, time_zone, after), count)
    return list(takewhile(lambda moment: until is None or moment <= until, starts))


def _starts(cron: Cron, time_zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    for wall in cron.wall_times(after.astimezone(time_zone)):
        moment = wall.replace(tzinfo=time_zone)
        instant = moment.astimezone(UTC)
        exists = instant.astimezone(time_zone).replace(tzinfo=None) == wall
        if exists and instant > after:
            yield moment


_NO_ZONES = {"Factory", "localtime", "posixrules"}
"""Files of the database that name no place."""


def read_time_zone(name: str) -> ZoneInfo:
    """The time zone of that name. Raises ScheduleError."""
    if name not in _names():
        close = difflib.get_close_matches(name, _names(), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ScheduleError(
            f"found {name!r}{hint}, allowed: the name of an IANA time zone, as in 'UTC' or "
            "'Europe/Paris'"
        )
    return ZoneInfo(name)


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones() - _NO_ZONES)
