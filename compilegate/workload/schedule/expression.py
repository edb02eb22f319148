"""Time zones by their IANA names.

Read an expression as EventBridge Scheduler writes it.

When a schedule starts next.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from compilegate.workload.schedule.cron import Cron, read_cron
from compilegate.workload.schedule.errors import ExpressionError
from compilegate.workload.schedule.rate import Rate, read_rate


def read_expression(text: str) -> Rate | Cron:
    """`rate(...)` or `cron(...)` as types. Raises ExpressionError: what was found, what is allowed.

    `at(...)` is refused, since what starts once is no schedule for training again and again.
    """
    match = re.fullmatch(r"(rate|cron|at)\((.*)\)", text)
    if match is None:
        raise ExpressionError(
            f"found {text!r}, allowed: rate(...) or cron(...), as in rate(7 days) or "
            "cron(0 6 ? * MON *)"
        )
    kind, content = match[1], match[2]
    if kind == "at":
        raise ExpressionError(
            f"found {text}, which starts once and never again, allowed: rate(...) or cron(...); "
            "to train once, start an execution by hand"
        )
    return read_rate(content) if kind == "rate" else read_cron(content)


def next_times(
    expression: Rate | Cron, time_zone: ZoneInfo, after: datetime, count: int
) -> list[datetime]:
    """The next `count` starts after that moment, in order and in that time zone; fewer where the
    expression names no more.

    A rate counts from when the schedule is made, which is taken to be `after`. As the service does,
    a time that the clock skips in spring is left out, and one that it shows twice in autumn is
    taken once.
    """
    if isinstance(expression, Rate):
        moments = (after + number * expression.interval for number in range(1, count + 1))
        return [moment.astimezone(time_zone) for moment in moments]
    return list(islice(_starts(expression, time_zone, after), count))


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
    """The time zone of that name. Raises ExpressionError."""
    if name not in _names():
        close = difflib.get_close_matches(name, _names(), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ExpressionError(
            f"found {name!r}{hint}, allowed: the name of an IANA time zone, as in 'UTC' or "
            "'Europe/Paris'"
        )
    return ZoneInfo(name)


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones() - _NO_ZONES)
