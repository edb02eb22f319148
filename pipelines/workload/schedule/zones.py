"""Time zones by their IANA names."""

from __future__ import annotations

import difflib
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from pipelines.workload.schedule.errors import ExpressionError

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
