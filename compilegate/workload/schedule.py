"""When a workload is trained again: expressions of EventBridge Scheduler, their next starts. Pure.

    next_times(read_expression("cron(0 6 ? * MON *)"), read_time_zone("Europe/Paris"), now, 3)

The service checks an expression when it is deployed; what is read here is what the next starts
follow from, so that a mistake is found before.
"""

from __future__ import annotations

import calendar
import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, available_timezones

UNITS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
FIELDS: Mapping[str, tuple[int, int, tuple[str, ...]]] = {
    "minutes": (0, 59, ()),
    "hours": (0, 23, ()),
    "day-of-month": (1, 31, ()),
    "month": (1, 12, MONTHS),
    "day-of-week": (1, 7, WEEKDAYS),
    "year": (1970, 2199, ()),
}
"""By field: its least number, its greatest, and the names of its numbers."""


@dataclass(frozen=True)
class Rate:
    """A fixed time between two starts; a day is 24 hours, also when clocks change."""

    interval: timedelta


@dataclass(frozen=True)
class Cron:
    """The minutes, hours, months and years at which to start, and the two fields for days."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    of_month: str
    months: tuple[int, ...]
    of_week: str
    years: tuple[int, ...]

    def days(self, year: int, month: int) -> tuple[int, ...]:
        """The days of that month, in order; none where it has no such day."""
        length = calendar.monthrange(year, month)[1]
        if self.of_week == "?":
            if self.of_month.endswith(("L", "W")):
                date = self.of_month.rstrip("W")
                day = length if date == "L" else int(date)
                working = self.of_month.endswith("W")
                return (_working_day(year, month, day) if working else day,) * (day <= length)
            return tuple(day for day in _values(self.of_month, "day-of-month") if day <= length)
        # "6L" is the last Friday, "L" is Saturday, "3#2" the second Tuesday; others are of any week
        weekdays, last, _ = self.of_week.partition("L")
        weekdays, _, occurrence = (weekdays or "7").partition("#")
        wanted = _values(weekdays, "day-of-week")
        days = tuple(d for d in range(1, length + 1) if _weekday(year, month, d) in wanted)
        if occurrence:
            return days[int(occurrence) - 1 : int(occurrence)]
        return days[-1:] if last and self.of_week != "L" else days


def read_expression(text: str) -> Rate | Cron:
    """`rate(...)` or `cron(...)` as types. Raises ValueError: what was found, what is expected."""
    match = re.fullmatch(r"(rate|cron)\((.*)\)", text)
    if match is None:  # `at(...)` among others, which starts once and is no schedule
        raise ValueError(
            f"is {text!r}, expected rate(...) or cron(...), as in rate(7 days) or "
            "cron(0 6 ? * MON *)"
        )
    return _rate(match[2]) if match[1] == "rate" else _cron(match[2])


def _rate(content: str) -> Rate:
    match = re.fullmatch(r"(1) (minute|hour|day)|([1-9][0-9]{0,4}) (minute|hour|day)s", content)
    if match is None or match[3] == "1":
        raise ValueError(
            f"is rate({content}), expected rate(NUMBER UNIT) in minutes, hours or days, as in "
            "rate(1 day) or rate(12 hours)"
        )
    return Rate(int(match[1] or match[3]) * UNITS[match[2] or match[4]])


def _cron(content: str) -> Cron:
    fields = content.split(" ")
    if len(fields) != len(FIELDS) or not all(fields):
        raise ValueError(
            f"is cron({content}), expected six fields with one space between them: "
            f"{' '.join(FIELDS)}"
        )
    minutes, hours, of_month, months, of_week, years = fields
    if (of_month == "?") == (of_week == "?"):
        raise ValueError(
            f"has {of_month!r} in the day-of-month field and {of_week!r} in the day-of-week field, "
            "expected '?' in exactly one of them"
        )
    # Alone in its field: L, LW, 15W; L, 6L, 3#2.
    if of_month != "?" and not re.fullmatch(r"LW?", of_month):
        _values(re.sub(r"^([0-9]+)W$", r"\1", of_month), "day-of-month")
    if of_week not in ("?", "L"):
        _values(re.sub(r"^([1-7])L$|^(\w+)#[1-5]$", r"\1\2", of_week), "day-of-week")
    return Cron(
        _values(minutes, "minutes"),
        _values(hours, "hours"),
        of_month,
        _values(months, "month"),
        of_week,
        _values(years, "year"),
    )


_PART = re.compile(r"(?:\*|([0-9A-Z]+)(?:-([0-9A-Z]+))?)(?:/([0-9]{1,4}))?")


def _values(text: str, field: str) -> tuple[int, ...]:
    """The numbers that a list of numbers, names, ranges and steps has, in order."""
    least, most, _ = FIELDS[field]
    values: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        first, last, step = match.groups() if match else ("", None, None)
        start = least if first is None else _number(first, field, text)
        alone = first is not None and last is None and step is None
        end = _number(last, field, text) if last else start if alone else most
        if start > end or (step and not 0 < int(step) <= most):
            raise ValueError(_expected(text, field))
        values.update(range(start, end + 1, int(step or 1)))
    return tuple(sorted(values))


def _number(text: str, field: str, whole: str) -> int:
    least, most, names = FIELDS[field]
    number = names.index(text) + 1 if text in names else int(text) if text.isdigit() else -1
    if not least <= number <= most:
        raise ValueError(_expected(whole, field))
    return number


def _expected(text: str, field: str) -> str:
    least, most, names = FIELDS[field]
    named = f" or {names[0]}-{names[-1]}" if names else ""
    return f"has {text!r} in the {field} field, expected {least}-{most}{named} in rising ranges"


def _weekday(year: int, month: int, day: int) -> int:
    """1 for Sunday to 7 for Saturday."""
    return (calendar.weekday(year, month, day) + 1) % 7 + 1


def _working_day(year: int, month: int, day: int) -> int:
    """The nearest day from Monday to Friday in the same month."""
    days = range(1, calendar.monthrange(year, month)[1] + 1)
    working = [each for each in days if calendar.weekday(year, month, each) < 5]
    return min(working, key=lambda each: abs(each - day))


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
    first = after.astimezone(time_zone).date()
    days = (
        (year, month, day)
        for year in cron.years
        for month in cron.months
        if (year, month) >= (first.year, first.month)
        for day in cron.days(year, month)
        if (year, month, day) >= (first.year, first.month, first.day)
    )
    for day in days:
        for hour in cron.hours:
            for minute in cron.minutes:
                moment = datetime(*day, hour, minute, tzinfo=time_zone)
                instant = moment.astimezone(UTC)
                shown = instant.astimezone(time_zone)  # in one zone, clocks are compared
                if instant > after and shown == moment:
                    yield moment


def read_time_zone(name: str) -> ZoneInfo:
    """The time zone of that name. Raises ValueError."""
    if name not in _zones():
        close = difflib.get_close_matches(name, _zones(), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(
            f"is {name!r}{hint}, expected the name of an IANA time zone, as in 'UTC' or "
            "'Europe/Paris'"
        )
    return ZoneInfo(name)


@cache
def _zones() -> frozenset[str]:
    """The database's names, without those that name no place."""
    return frozenset(available_timezones() - {"Factory", "localtime", "posixrules"})
