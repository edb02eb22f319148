"""`cron(0 6 ? * MON *)`: by the clock and the calendar of a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pipelines.workload.schedule.days import Days, read_days
from pipelines.workload.schedule.errors import ExpressionError
from pipelines.workload.schedule.fields import HOURS, MINUTES, MONTH, YEAR, read_values

FIELDS = 6


@dataclass(frozen=True)
class Cron:
    """The minutes, hours, days, months and years at which to start."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: Days
    months: tuple[int, ...]
    years: tuple[int, ...]

    def wall_times(self, first: datetime) -> Iterator[datetime]:
        """What the clock on the wall shows at each start, from the day of `first` on, in order."""
        for year, month in self._months_from(first):
            for day in self.days.of(year, month):
                if (year, month, day) >= (first.year, first.month, first.day):
                    for hour in self.hours:
                        for minute in self.minutes:
                            yield datetime(year, month, day, hour, minute)  # noqa: DTZ001

    def _months_from(self, first: datetime) -> Iterator[tuple[int, int]]:
        for year in self.years:
            for month in self.months:
                if (year, month) >= (first.year, first.month):
                    yield year, month


def read_cron(content: str) -> Cron:
    """Read what stands between the parentheses. Raises ExpressionError."""
    fields = content.split(" ")
    if len(fields) != FIELDS or not all(fields):
        found = len(content.split())
        raise ExpressionError(
            f"found cron({content}) with {found} fields, allowed: six with one space between them, "
            "minutes hours day-of-month month day-of-week year, as in cron(0 6 ? * MON *)"
        )
    minutes, hours, of_month, months, of_week, years = fields
    return Cron(
        minutes=read_values(minutes, MINUTES),
        hours=read_values(hours, HOURS),
        days=read_days(of_month, of_week),
        months=read_values(months, MONTH),
        years=read_values(years, YEAR),
    )
