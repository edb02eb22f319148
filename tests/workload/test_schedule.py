"""What starts executions by itself: schedules as EventBridge Scheduler takes them, and new data."""

from __future__ import annotations

import calendar
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.cli.validate import schedule_sentence
from compilegate.workload import NewData, Schedule
from compilegate.workload.schedule import Cron, next_times, read_expression, read_time_zone
from tests.workload.settled import TOPICS, workload_with

WEEKLY = "cron(0 6 ? * MON *)"
NOW = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
"""A Friday."""


def starts(expression: str, zone: str = "UTC", after: datetime = NOW, count: int = 3) -> list[str]:
    times = next_times(read_expression(expression), read_time_zone(zone), after, count)
    return [f"{time:%a %Y-%m-%d %H:%M}" for time in times]


@pytest.mark.parametrize(
    ("expression", "first", "second"),
    [
        ("cron(0 6 ? * MON *)", "Mon 2026-11-23 06:00", "Mon 2026-11-30 06:00"),
        ("cron(0 6 ? * 2 *)", "Mon 2026-11-23 06:00", "Mon 2026-11-30 06:00"),
        ("cron(15,45 13 * * ? *)", "Fri 2026-11-20 13:15", "Fri 2026-11-20 13:45"),
        ("cron(0/20 8-9 ? * MON-FRI *)", "Mon 2026-11-23 08:00", "Mon 2026-11-23 08:20"),
        ("cron(0 */6 * * ? *)", "Fri 2026-11-20 18:00", "Sat 2026-11-21 00:00"),
        ("cron(0 0 1-7/3 * ? *)", "Tue 2026-12-01 00:00", "Fri 2026-12-04 00:00"),
        ("cron(0 12 1 JAN,JUL ? *)", "Fri 2027-01-01 12:00", "Thu 2027-07-01 12:00"),
        ("cron(0 12 L * ? *)", "Mon 2026-11-30 12:00", "Thu 2026-12-31 12:00"),
        ("cron(0 12 LW 1 ? *)", "Fri 2027-01-29 12:00", "Mon 2028-01-31 12:00"),
        # 15 November 2026 is a Sunday, 1 May 2027 a Saturday, 31 October 2027 a Sunday.
        ("cron(0 12 15W 11 ? 2026-2027)", "Mon 2027-11-15 12:00", None),
        ("cron(0 12 1W 5 ? 2027)", "Mon 2027-05-03 12:00", None),
        ("cron(0 12 31W 10 ? 2027)", "Fri 2027-10-29 12:00", None),
        ("cron(0 12 31W 4 ? *)", None, None),
        ("cron(0 12 ? * L *)", "Sat 2026-11-21 12:00", "Sat 2026-11-28 12:00"),
        ("cron(0 12 ? * 6L *)", "Fri 2026-11-27 12:00", "Fri 2026-12-25 12:00"),
        ("cron(0 12 ? * 3#2 *)", "Tue 2026-12-08 12:00", "Tue 2027-01-12 12:00"),
        ("cron(0 12 ? * TUE#5 *)", "Tue 2026-12-29 12:00", "Tue 2027-03-30 12:00"),
        ("cron(0 12 29 2 ? *)", "Tue 2028-02-29 12:00", "Sun 2032-02-29 12:00"),
        ("cron(0 12 30 2 ? *)", None, None),
        ("cron(0 12 1 1 ? 2199)", "Tue 2199-01-01 12:00", None),
        ("cron(0 12 1 1 ? 2025)", None, None),
        ("rate(1 day)", "Sat 2026-11-21 13:00", "Sun 2026-11-22 13:00"),
        ("rate(90 minutes)", "Fri 2026-11-20 14:30", "Fri 2026-11-20 16:00"),
    ],
)
def test_when_an_expression_starts(expression: str, first: str | None, second: str | None) -> None:
    expected = [time for time in (first, second) if time is not None]
    assert starts(expression, count=2) == expected


def test_a_time_is_that_of_its_zone() -> None:
    assert starts("cron(0 6 * * ? *)", "Asia/Tokyo", count=1) == ["Sat 2026-11-21 06:00"]
    assert starts("cron(30 22 * * ? *)", "Asia/Tokyo", count=1) == ["Fri 2026-11-20 22:30"]


def test_a_time_that_the_clock_skips_is_left_out_and_one_shown_twice_is_taken_once() -> None:
    """In Paris clocks go from 02:00 to 03:00 on 28 March 2027, and back on 31 October."""
    spring = datetime(2027, 3, 26, 12, tzinfo=UTC)
    assert starts("cron(30 2 * * ? *)", "Europe/Paris", spring, 2) == [
        "Sat 2027-03-27 02:30",
        "Mon 2027-03-29 02:30",
    ]
    autumn = datetime(2027, 10, 30, 12, tzinfo=UTC)
    assert starts("cron(30 2 * * ? *)", "Europe/Paris", autumn, 2) == [
        "Sun 2027-10-31 02:30",
        "Mon 2027-11-01 02:30",
    ]


@pytest.mark.parametrize("name", ["CEST", "localtime", ""])
def test_only_names_of_places_are_time_zones(name: str) -> None:
    with pytest.raises(ValueError, match="expected the name of an IANA time zone"):
        read_time_zone(name)


SIMPLE_FIELDS = {
    "minute": st.sampled_from(["*", "0", "*/7", "5-50/15", "59"]),
    "hour": st.sampled_from(["*", "0", "2", "3", "*/5", "9-17"]),
    "days": st.sampled_from(
        [f"{dates} {{m}} ?" for dates in ("*", "1", "31", "L", "LW", "15W", "1W")]
        + [f"? {{m}} {weekdays}" for weekdays in ("MON-FRI", "1", "L", "2L", "4#5", "7#1")]
    ),
    "month": st.sampled_from(["*", "2", "JUN-AUG", "*/5"]),
    "year": st.sampled_from(["*", "2027", "2026/2"]),
}
ZONES = st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Pacific/Apia", "Asia/Kolkata"])
MOMENTS = st.integers(0, 3 * 365 * 24 * 60).map(
    lambda minutes: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
)


@pytest.mark.slow
@given(st.fixed_dictionaries(SIMPLE_FIELDS), ZONES, MOMENTS)
def test_starts_rise_and_are_the_very_times_that_the_expression_names(
    fields: dict[str, str], zone: str, after: datetime
) -> None:
    days = fields["days"].format(m=fields["month"])
    expression = f"cron({fields['minute']} {fields['hour']} {days} {fields['year']})"
    cron = read_expression(expression)
    assert isinstance(cron, Cron)
    times = next_times(cron, read_time_zone(zone), after, 5)
    assert times == sorted(set(times))
    for time in times:
        assert time > after
        assert (time.minute, time.hour) in {(m, h) for m in cron.minutes for h in cron.hours}
        assert time.day in cron.days(time.year, time.month)
        assert time.month in cron.months
        assert time.year in cron.years
        # It is a time that the zone's clock shows.
        assert time.astimezone(UTC).astimezone(time.tzinfo).replace(tzinfo=None) == time.replace(
            tzinfo=None
        )
    if times and zone == "UTC":
        # None was passed over: minute by minute, as far as that is quick.
        until = min(times[0], after + timedelta(days=2))
        moment = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
        while moment < until:
            assert not (
                moment.minute in cron.minutes
                and moment.hour in cron.hours
                and moment.day in cron.days(moment.year, moment.month)
                and moment.month in cron.months
                and moment.year in cron.years
            )
            moment += timedelta(minutes=1)


@given(st.integers(1, 31), st.integers(2026, 2099), st.integers(1, 12))
def test_a_working_day_is_one_and_the_nearest_there_is(date: int, year: int, month: int) -> None:
    cron = read_expression(f"cron(0 0 {date}W * ? *)")
    assert isinstance(cron, Cron)
    length = calendar.monthrange(year, month)[1]
    working = [day for day in range(1, length + 1) if calendar.weekday(year, month, day) < 5]
    chosen = cron.days(year, month)
    if date > length:
        assert chosen == ()
    else:
        (day,) = chosen
        assert day in working
        assert abs(day - date) == min(abs(other - date) for other in working)


def test_nothing_starts_by_itself_until_a_table_turns_it_on() -> None:
    workload = workload_with(TOPICS)
    assert (workload.schedule, workload.new_data) == (None, None)
    off = workload_with(TOPICS, schedule={"expression": WEEKLY}, new_data={"prefix": "in/"})
    assert off.schedule == Schedule(expression=WEEKLY, timezone="UTC", enabled=False)
    assert off.new_data == NewData(prefix="in/", enabled=False)


def test_a_schedule_may_give_the_pipeline_s_parameters_values() -> None:
    values = {"ModelApprovalStatus": "Approved", "MaxRuntimeInSeconds": 3600}
    schedule = workload_with(TOPICS, schedule={"expression": WEEKLY, "parameters": values}).schedule
    assert schedule is not None
    assert schedule.parameters == values


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        (
            Schedule(expression="cron(0 6 ? * MON *)", timezone="Europe/Paris", enabled=True),
            "schedule: cron(0 6 ? * MON *) in Europe/Paris starts next at Mon 2026-11-23 06:00 "
            "CET, Mon 2026-11-30 06:00 CET, Mon 2026-12-07 06:00 CET",
        ),
        (
            Schedule(expression="rate(7 days)"),
            "schedule: rate(7 days) in UTC if deployed now, starts at Fri 2026-11-27 13:00 UTC, "
            "Fri 2026-12-04 13:00 UTC, Fri 2026-12-11 13:00 UTC; it is disabled",
        ),
        (
            Schedule(expression="cron(0 6 30 2 ? *)", enabled=True),
            "schedule: cron(0 6 30 2 ? *) in UTC will not start again",
        ),
    ],
)
def test_validate_says_when_a_schedule_starts_next(schedule: Schedule, sentence: str) -> None:
    assert schedule_sentence(schedule, NOW) == sentence
