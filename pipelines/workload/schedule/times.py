"""When a schedule starts next."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

from pipelines.workload.schedule.cron import Cron
from pipelines.workload.schedule.rate import Rate


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
