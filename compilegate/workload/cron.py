"""When a workload is trained again: EventBridge Scheduler's expressions, and how often they start.

    starts_within(read_expression("cron(0 6 ? * MON *)"), datetime.date(2026, 11, 20), 364)  # 52

The service checks an expression when it is deployed. What is read here is what costs and advice
depend on, and finds most mistakes earlier. Clocks that change are not reckoned with. Pure.
"""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

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
"""Fields with their least and greatest numbers, and the numbers' names."""
_PART = re.compile(r"(?:\*|([0-9A-Z]+)(?:-([0-9A-Z]+))?)(?:/([0-9]{1,4}))?")


@dataclass(frozen=True)
class Cron:
    """The times of a day at which to start, the months and years, and the two fields for days."""

    times: tuple[timedelta, ...]
    of_month: str
    months: tuple[int, ...]
    of_week: str
    years: tuple[int, ...]

    def starts_on(self, day: datetime.date) -> bool:
        """Whether it starts on that day. `15W`, the working day nearest to the 15th, counts as the
        15th: it is one a month either way."""
        if day.year not in self.years or day.month not in self.months:
            return False
        length = calendar.monthrange(day.year, day.month)[1]
        if self.of_week == "?":
            if self.of_month.startswith("L"):
                return day.day == length
            return day.day in _values(self.of_month.rstrip("W"), "day-of-month")
        # "6L" is the last Friday, "L" is Saturday, "3#2" the second Tuesday; others are of any week
        weekdays, last, _ = self.of_week.partition("L")
        weekdays, _, occurrence = (weekdays or "7").partition("#")
        if day.isoweekday() % 7 + 1 not in _values(weekdays, "day-of-week"):
            return False
        if occurrence:
            return (day.day - 1) // 7 + 1 == int(occurrence)
        return not last or self.of_week == "L" or day.day + 7 > length


def read_expression(text: str) -> timedelta | Cron:
    """`rate(...)`, the time between two starts, or `cron(...)`, as types. A day is 24 hours, also
    when clocks change. Raises ValueError: what was found, what is expected."""
    if match := re.fullmatch(r"cron\((.*)\)", text):
        return _cron(match[1])
    match = re.fullmatch(
        r"rate\((?:(1) (minute|hour|day)|(?!1 )([1-9][0-9]{0,4}) (minute|hour|day)s)\)", text
    )
    if match is None:  # `at(...)` among others, which starts once and is no schedule
        raise ValueError(
            f"is {text!r}, expected rate(NUMBER UNIT) in minutes, hours or days, or cron(...), as "
            "in rate(1 day), rate(12 hours) or cron(0 6 ? * MON *)"
        )
    return int(match[1] or match[3]) * UNITS[match[2] or match[4]]


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
    times = [
        timedelta(hours=hour, minutes=minute)
        for hour in _values(hours, "hours")
        for minute in _values(minutes, "minutes")
    ]
    return Cron(tuple(times), of_month, _values(months, "month"), of_week, _values(years, "year"))


def _values(text: str, field: str) -> tuple[int, ...]:
    """The numbers that a list of numbers, names, ranges and steps has, in order."""
    least, most, names = FIELDS[field]

    def number(part: str | None, otherwise: int) -> int:
        if part is None:
            return otherwise
        if part in names:
            return names.index(part) + 1
        return int(part) if part.isdigit() and least <= int(part) <= most else -1

    values: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        first, last, step = match.groups() if match else ("", None, None)
        start = number(first, least)
        end = number(last, start if first is not None and step is None else most)
        if not 0 <= start <= end or (step and not 0 < int(step) <= most):
            named = f" or {names[0]}-{names[-1]}" if names else ""
            raise ValueError(
                f"has {text!r} in the {field} field, expected {least}-{most}{named} in rising "
                "ranges"
            )
        values.update(range(start, end + 1, int(step or 1)))
    return tuple(sorted(values))


def starts_within(expression: timedelta | Cron, after: datetime.date, days: int) -> int:
    """How often an expression starts in the days that follow that one."""
    if isinstance(expression, timedelta):
        return timedelta(days=days) // expression
    return len(list(_days(expression, after, days))) * len(expression.times)


def longest_gap(expression: timedelta | Cron, after: datetime.date, days: int) -> timedelta | None:
    """The longest time between two starts in the days that follow; None with one start or none."""
    if isinstance(expression, timedelta):
        return expression
    times, starting = expression.times, list(_days(expression, after, days))
    gaps = [later - earlier for earlier, later in pairwise(times) if starting]
    gaps += [later - earlier + times[0] - times[-1] for earlier, later in pairwise(starting)]
    return max(gaps, default=None)


def _days(cron: Cron, after: datetime.date, days: int) -> Iterator[datetime.date]:
    every = (after + timedelta(days=number) for number in range(1, days + 1))
    return (day for day in every if cron.starts_on(day))


def read_time_zone(name: str) -> ZoneInfo:
    """The time zone of that name. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise ValueError(
            f"is {name!r}, expected the name of an IANA time zone, as in 'UTC' or 'Europe/Paris'"
        ) from error
