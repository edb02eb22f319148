"""What a start by a schedule may cost, and what nobody would hear of otherwise."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

pytestmark = pytest.mark.slow

STARTED = datetime(2026, 8, 10, 3, tzinfo=UTC)


@pytest.fixture
def limits(monkeypatch):
    """Sets the function's limits, as the stack does."""

    def set_limits(**values):
        monkeypatch.setenv("LIMITS", json.dumps(values))

    return set_limits


def test_a_start_that_the_month_does_not_allow_is_stopped_and_that_is_said_once(account, limits):
    limits(month_usd=10.0, most_usd=10.5, rates={"1.408": ["Train-baseline-1"]})
    execution = account.start()
    account.becomes(execution, "Executing")
    account.becomes(execution, "Executing")
    assert account.statuses() == ["Stopped"]
    (said,) = account.messages()
    assert said["Subject"].endswith("stopped, the month's budget does not allow it")
    assert "It could cost 10.50 USD" in said["Message"]
    assert "allows 10.00 USD" in said["Message"]


def test_a_start_that_the_month_allows_runs_on(account, limits):
    limits(month_usd=10.0, most_usd=10.0, rates={})
    account.becomes(account.start(), "Executing")
    assert account.statuses() == ["Executing"]
    assert account.messages() == []


def test_without_a_budget_nothing_is_counted(account, limits):
    limits(hours=72)
    account.becomes(account.start(), "Executing")
    assert account.statuses() == ["Executing"]
    assert account.aws.calls("ListPipelineExecutionSteps") == []


def test_the_hourly_look_finds_nothing_wrong_with_a_new_execution(account, limits):
    limits(hours=72, gap_hours=24 * 7 + 6)
    account.start()
    assert account.handler({"look": "topics"}, None) == {"sent": []}


def test_steps_cost_what_they_took_and_cached_ones_nothing(account):
    from notifier.limits import Limits, StepTime, is_above, read_limits, spent  # noqa: PLC0415

    limits = read_limits('{"month_usd":5,"most_usd":2,"rates":{"2":["a","b"],"0.5":["c"]}}')
    hour = timedelta(hours=1)
    steps = [
        StepTime("a", STARTED, STARTED + hour, False),
        StepTime("b", STARTED, None, False),
        StepTime("c", STARTED, STARTED + 2 * hour, True),
        StepTime("d", STARTED, STARTED + hour, False),
        StepTime("c", None, None, False),
    ]
    assert spent(limits, steps, STARTED + hour / 2) == pytest.approx(3.0)
    assert not is_above(limits, 3.0)
    assert is_above(limits, 3.01)
    assert not is_above(Limits(), 1e9)


def test_an_execution_that_does_not_end_is_found(account):
    from notifier.limits import Limits, overdue  # noqa: PLC0415
    from notifier.overlap import Execution  # noqa: PLC0415

    running = Execution(STARTED, "arn:running", "Executing")
    ended = Execution(STARTED, "arn:ended", "Succeeded")
    limits = Limits(hours=2)
    assert overdue(limits, [running, ended], STARTED + timedelta(hours=2)) == []
    assert overdue(limits, [running, ended], STARTED + timedelta(hours=3)) == [running]


def test_a_schedule_that_starts_nothing_is_found_but_not_after_a_deployment(account):
    from notifier.limits import Limits, unstarted_since  # noqa: PLC0415
    from notifier.overlap import Execution  # noqa: PLC0415

    limits, week = Limits(gap_hours=174), timedelta(days=7)
    before, last = STARTED - 9 * week, Execution(STARTED, "arn:last", "Succeeded")
    later = STARTED + 2 * week
    assert unstarted_since(limits, [last], before, STARTED + week) is None
    assert unstarted_since(limits, [last], before, later) == STARTED
    assert unstarted_since(limits, [last], later, later + week) is None
    assert unstarted_since(limits, [], STARTED, later) == STARTED
    assert unstarted_since(Limits(), [last], before, later) is None
