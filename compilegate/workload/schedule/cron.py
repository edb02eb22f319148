"""`cron(0 6 ? * MON *)`: at times of day and on days of a time zone.

One field of a cron expression: numbers, names, ranges, steps and lists.

Which days of a month an expression means: by date, by weekday, or by one of the wildcards that
stand for a day that differs from month to month.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from compilegate.workload.errors import ScheduleError

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True)
class Field:
    """What one of the six fields may hold."""

    name: str
    least: int
    most: int
    names: Mapping[str, int] = field(default_factory=dict)
    steps: bool = True
    """Whether `/` is among its wildcards."""

    @property
    def range(self) -> str:
        named = f" or {next(iter(self.names))}-{list(self.names)[-1]}" if self.names else ""
        return f"{self.least}-{self.most}{named}"


MINUTES = Field("minutes", 0, 59)
HOURS = Field("hours", 0, 23)
DAYS_OF_MONTH = Field("day-of-month", 1, 31)
MONTH = Field("month", 1, 12, {name: number for number, name in enumerate(MONTHS, start=1)})
DAYS_OF_WEEK = Field(
    "day-of-week",
    1,
    7,
    {name: number for number, name in enumerate(WEEKDAYS, start=1)},
    steps=False,
)
YEAR = Field("year", 1970, 2199)


def read_values(text: str, of: Field) -> tuple[int, ...]:
    """The numbers that a field names, in order. Raises ScheduleError."""
    values: set[int] = set()
    for part in text.split(","):
        values.update(_part(part, of))
    return tuple(sorted(values))


def read_number(text: str, of: Field) -> int:
    """One number or name. Raises ScheduleError."""
    value = of.names.get(text)
    if value is None and re.fullmatch(r"[0-9]{1,4}", text):
        value = int(text)
    if value is None or not of.least <= value <= of.most:
        raise ScheduleError(f"found {text!r} in the {of.name} field, allowed: {of.range}")
    return value


def _part(text: str, of: Field) -> range:
    values, slash, step_text = text.partition("/")
    if slash and not of.steps:
        raise ScheduleError(f"found {text!r} in the {of.name} field, allowed: no step there")
    start, dash, end = values.partition("-")
    if values == "*":
        first, last = of.least, of.most
    elif dash:
        first, last = read_number(start, of), read_number(end, of)
    else:
        first = read_number(values, of)
        last = of.most if slash else first
    if first > last:
        raise ScheduleError(
            f"found {text!r} in the {of.name} field, allowed: a rising range; "
            f"write one that wraps round as two, as in {start}-{of.most},{of.least}-{end}"
        )
    return range(first, last + 1, _step(step_text, text, of) if slash else 1)


def _step(step_text: str, text: str, of: Field) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", step_text) or not 1 <= int(step_text) <= of.most:
        raise ScheduleError(
            f"found {text!r} in the {of.name} field, allowed: a step from 1 to {of.most}"
        )
    return int(step_text)


UNSPECIFIED = "?"


class Days(Protocol):
    """A choice of days."""

    def of(self, year: int, month: int) -> tuple[int, ...]:
        """The days of that month, in order; none where it has no such day."""


@dataclass(frozen=True)
class Dates:
    """`1,15` or `*`: those dates that the month has."""

    dates: tuple[int, ...]

    def of(self, year: int, month: int) -> tuple[int, ...]:
        return tuple(day for day in self.dates if day <= _length(year, month))


@dataclass(frozen=True)
class LastDay:
    """`L`, or `LW`: the last day of the month, or its last working day (Monday to Friday)."""

    working: bool

    def of(self, year: int, month: int) -> tuple[int, ...]:
        last = _length(year, month)
        return (_nearest_working_day(year, month, last) if self.working else last,)


@dataclass(frozen=True)
class NearestWorkingDay:
    """`15W`: the working day closest to that date, in the same month."""

    date: int

    def of(self, year: int, month: int) -> tuple[int, ...]:
        if self.date > _length(year, month):
            return ()
        return (_nearest_working_day(year, month, self.date),)


@dataclass(frozen=True)
class Weekdays:
    """`MON-FRI`: those days of every week; 1 is Sunday."""

    weekdays: tuple[int, ...]

    def of(self, year: int, month: int) -> tuple[int, ...]:
        days = range(1, _length(year, month) + 1)
        return tuple(day for day in days if _weekday(year, month, day) in self.weekdays)


@dataclass(frozen=True)
class WeekdayOfMonth:
    """`3#2`: the second Tuesday of the month; `6L`: its last Friday."""

    weekday: int
    occurrence: int | None
    """From 1; None for the last."""

    def of(self, year: int, month: int) -> tuple[int, ...]:
        days = Weekdays((self.weekday,)).of(year, month)
        if self.occurrence is None:
            return days[-1:]
        return days[self.occurrence - 1 : self.occurrence]


def read_days(of_month: str, of_week: str) -> Days:
    """The two day fields, of which exactly one is `?`. Raises ScheduleError."""
    if UNSPECIFIED not in {of_month, of_week}:
        raise ScheduleError(
            f"found {of_month!r} in the day-of-month field and {of_week!r} in the day-of-week "
            "field, allowed: '?' in one of them"
        )
    if of_month == of_week:
        raise ScheduleError(
            "found '?' in the day-of-month and the day-of-week field, allowed: '?' in one of "
            "them only, '*' for every day"
        )
    return _of_month(of_month) if of_week == UNSPECIFIED else _of_week(of_week)


def _of_month(text: str) -> Days:
    if text in {"L", "LW"}:
        return LastDay(working=text == "LW")
    if match := re.fullmatch(r"(\d+)W", text):
        return NearestWorkingDay(read_number(match[1], DAYS_OF_MONTH))
    if "L" in text or "W" in text:
        raise ScheduleError(
            f"found {text!r} in the day-of-month field, allowed: L, LW or one date with W, "
            "and nothing beside it, as in 15W"
        )
    return Dates(read_values(text, DAYS_OF_MONTH))


def _of_week(text: str) -> Days:
    if text == "L":
        return Weekdays((7,))
    if match := re.fullmatch(r"(\d)L", text):
        return WeekdayOfMonth(read_number(match[1], DAYS_OF_WEEK), None)
    if match := re.fullmatch(r"(\d|[A-Z]{3})#([1-5])", text):
        return WeekdayOfMonth(read_number(match[1], DAYS_OF_WEEK), int(match[2]))
    if "#" in text or re.search(r"L(?:,|$)", text):
        raise ScheduleError(
            f"found {text!r} in the day-of-week field, allowed: L, a number with L or one day with "
            "#, and nothing beside it, as in 6L (the last Friday) or 3#2 (the second Tuesday)"
        )
    return Weekdays(read_values(text, DAYS_OF_WEEK))


def _length(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1]


def _weekday(year: int, month: int, day: int) -> int:
    """1 for Sunday to 7 for Saturday."""
    return (calendar.weekday(year, month, day) + 1) % 7 + 1


def _nearest_working_day(year: int, month: int, day: int) -> int:
    # A Saturday goes back and a Sunday on, unless that would leave the month.
    weekday = _weekday(year, month, day)
    if weekday == 7:
        return day - 1 if day > 1 else day + 2
    if weekday == 1:
        return day + 1 if day < _length(year, month) else day - 2
    return day


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
    """Read what stands between the parentheses. Raises ScheduleError."""
    fields = content.split(" ")
    if len(fields) != FIELDS or not all(fields):
        found = len(content.split())
        raise ScheduleError(
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
