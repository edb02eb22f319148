"""What starts executions by itself: schedules as EventBridge Scheduler takes them, and new data."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.workload import NewData, Schedule
from compilegate.workload.cron import (
    Cron,
    longest_gap,
    read_expression,
    read_time_zone,
    starts_within,
)
from compilegate.workload.declaration.schedule import Parameters
from tests.workload.settled import TOPICS, workload_with

WEEKLY = "cron(0 6 ? * MON *)"
FRIDAY = date(2026, 11, 20)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("expression", "starts", "gap"),
    [
        (WEEKLY, 52, 7 * DAY),
        ("cron(0 6 ? * 2 *)", 52, 7 * DAY),
        ("cron(15,45 13 * * ? *)", 2 * 364, DAY - HOUR / 2),
        ("cron(0/20 8-9 ? * MON-FRI *)", 6 * 260, 3 * DAY - 5 * HOUR / 3),
        ("cron(0 */6 * * ? *)", 4 * 364, 6 * HOUR),
        ("cron(0 0 1-7/3 * ? *)", 36, 25 * DAY),
        ("cron(0 12 1 JAN,JUL ? *)", 2, 181 * DAY),
        ("cron(0 12 L * ? *)", 12, 31 * DAY),
        ("cron(0 12 LW 1 ? *)", 1, None),
        ("cron(0 12 15W 11 ? 2026-2027)", 1, None),
        ("cron(0 12 31W 4 ? *)", 0, None),
        ("cron(0 12 ? * L *)", 52, 7 * DAY),
        ("cron(0 12 ? * 6L *)", 12, 35 * DAY),
        ("cron(0 12 ? * 3#2 *)", 12, 35 * DAY),
        ("cron(0 12 ? * TUE#5 *)", 4, 91 * DAY),
        ("cron(0 12 29 2 ? *)", 0, None),
        ("cron(0 12 1 1 ? 2025)", 0, None),
        ("rate(1 day)", 364, DAY),
        ("rate(90 minutes)", 364 * 16, 1.5 * HOUR),
    ],
)
def test_how_often_an_expression_starts_in_52_weeks(
    expression: str, starts: int, gap: timedelta | None
) -> None:
    read = read_expression(expression)
    assert starts_within(read, FRIDAY, 364) == starts
    assert longest_gap(read, FRIDAY, 364) == gap


FIELDS = {
    "minute": st.sampled_from(["*", "0", "*/7", "5-50/15", "59"]),
    "hour": st.sampled_from(["*", "0", "2", "*/5", "9-17"]),
    "days": st.sampled_from(
        [f"{dates} {{m}} ?" for dates in ("*", "1", "31", "L", "LW", "15W")]
        + [f"? {{m}} {weekdays}" for weekdays in ("MON-FRI", "1", "L", "2L", "4#5", "7#1")]
    ),
    "month": st.sampled_from(["*", "2", "JUN-AUG", "*/5"]),
    "year": st.sampled_from(["*", "2027", "2026/2"]),
}


@given(st.fixed_dictionaries(FIELDS), st.dates(date(2026, 1, 1), date(2029, 1, 1)))
def test_starts_are_those_of_single_days_and_no_gap_is_longer(
    fields: dict[str, str], after: date
) -> None:
    days = fields["days"].format(m=fields["month"])
    expression = f"cron({fields['minute']} {fields['hour']} {days} {fields['year']})"
    cron = read_expression(expression)
    assert isinstance(cron, Cron)
    starting = [day for number in range(60) if cron.starts_on(day := after + number * DAY + DAY)]
    assert starts_within(cron, after, 60) == len(starting) * len(cron.times)
    gap = longest_gap(cron, after, 60)
    apart = max((later - earlier for earlier, later in pairwise(starting)), default=None)
    if apart is not None:
        assert gap is not None
        assert gap <= apart


@pytest.mark.parametrize("name", ["CEST", ""])
def test_only_names_of_places_are_time_zones(name: str) -> None:
    with pytest.raises(ValueError, match="expected the name of an IANA time zone"):
        read_time_zone(name)


def test_nothing_starts_by_itself_until_a_table_turns_it_on() -> None:
    workload = workload_with(TOPICS)
    assert (workload.schedule, workload.new_data) == (None, None)
    values = {"ModelApprovalStatus": "Approved", "MaxRuntimeInSeconds": 3600}
    schedule = {"expression": WEEKLY, "parameters": values}
    off = workload_with(TOPICS, schedule=schedule, new_data={"prefix": "in/"})
    assert off.schedule == Schedule(
        expression=WEEKLY, timezone="UTC", enabled=False, parameters=Parameters(**values)
    )
    assert off.new_data == NewData(prefix="in/", enabled=False)
