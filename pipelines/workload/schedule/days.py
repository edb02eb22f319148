"""Which days of a month an expression means: by date, by weekday, or by one of the wildcards that
stand for a day which every month has somewhere else."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from typing import Protocol

from pipelines.workload.schedule.errors import ExpressionError
from pipelines.workload.schedule.fields import (
    DAYS_OF_MONTH,
    DAYS_OF_WEEK,
    read_number,
    read_values,
)

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
    """The two day fields, of which exactly one is `?`. Raises ExpressionError."""
    if UNSPECIFIED not in {of_month, of_week}:
        raise ExpressionError(
            f"found {of_month!r} in the day-of-month field and {of_week!r} in the day-of-week "
            "field, allowed: '?' in one of them"
        )
    if of_month == of_week:
        raise ExpressionError(
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
        raise ExpressionError(
            f"found {text!r} in the day-of-month field, allowed: L, LW or a date with W alone, "
            "as in 15W"
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
        raise ExpressionError(
            f"found {text!r} in the day-of-week field, allowed: L, a number with L or one day with "
            "# alone, as in 6L (the last Friday) or 3#2 (the second Tuesday)"
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
