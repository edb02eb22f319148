"""One field of a cron expression: numbers, names, ranges, steps and lists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.workload.schedule.errors import ExpressionError

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
    """The numbers that a field names, in order. Raises ExpressionError."""
    values: set[int] = set()
    for part in text.split(","):
        values.update(_part(part, of))
    return tuple(sorted(values))


def read_number(text: str, of: Field) -> int:
    """One number or name. Raises ExpressionError."""
    value = of.names.get(text)
    if value is None and re.fullmatch(r"[0-9]{1,4}", text):
        value = int(text)
    if value is None or not of.least <= value <= of.most:
        raise ExpressionError(f"found {text!r} in the {of.name} field, allowed: {of.range}")
    return value


def _part(text: str, of: Field) -> range:
    values, slash, step_text = text.partition("/")
    if slash and not of.steps:
        raise ExpressionError(f"found {text!r} in the {of.name} field, allowed: no steps there")
    start, dash, end = values.partition("-")
    if values == "*":
        first, last = of.least, of.most
    elif dash:
        first, last = read_number(start, of), read_number(end, of)
    else:
        first = read_number(values, of)
        last = of.most if slash else first
    if first > last:
        raise ExpressionError(
            f"found {text!r} in the {of.name} field, allowed: a range that rises; "
            f"two ranges make one that wraps round, as in {start}-{of.most},{of.least}-{end}"
        )
    return range(first, last + 1, _step(step_text, text, of) if slash else 1)


def _step(step_text: str, text: str, of: Field) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", step_text) or not 1 <= int(step_text) <= of.most:
        raise ExpressionError(
            f"found {text!r} in the {of.name} field, allowed: a step from 1 to {of.most}"
        )
    return int(step_text)
