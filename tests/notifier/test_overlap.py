"""Executions of one pipeline do not overlap, whatever started them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

START = datetime(2026, 8, 1, 3, tzinfo=UTC)


def test_an_execution_that_starts_while_another_runs_is_stopped_and_that_is_said(account):
    older, newer = account.start(), account.start()
    account.becomes(newer, "Executing")
    assert account.statuses() == ["Executing", "Stopped"]
    (said,) = account.messages()
    stopped = f"execution {newer[-12:]} stopped, an older one is still running"
    assert said["Subject"] == f"topics: {stopped}"
    assert f"compilegate aws watch {older}" in said["Message"]
    assert "compilegate aws submit topics" in said["Message"]


def test_the_older_one_is_left_alone_when_its_own_event_is_late(account):
    older, newer = account.start(), account.start()
    account.becomes(newer, "Executing")
    account.becomes(older, "Executing")
    assert account.statuses() == ["Executing", "Stopped"]
    assert len(account.messages()) == 1


def test_an_execution_alone_runs_on_and_nothing_is_said(account):
    ended = account.start()
    account.stop(ended)
    assert account.becomes(account.start(), "Executing") == []
    assert account.statuses() == ["Stopped", "Executing"]
    assert account.messages() == []


def test_two_deliveries_at_one_moment_stop_it_once_and_say_it_once(account):
    _, newer = account.start(), account.start()
    account.deliver("Something Else", {})  # makes the clients, which threads cannot at once
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(lambda _: account.becomes(newer, "Executing"), range(4)))
    assert sorted(map(len, said)) == [0, 0, 0, 1]
    assert account.statuses() == ["Executing", "Stopped"]
    assert len(account.messages()) == 1


def test_an_older_execution_is_found_behind_a_page_of_ended_ones(account):
    older = account.start()
    for _ in range(12):
        account.stop(account.start())
    newer = account.start()
    account.becomes(newer, "Executing")
    assert account.statuses() == ["Executing", *["Stopped"] * 13]
    assert older in account.messages()[0]["Message"]


def test_what_could_not_be_stopped_is_tried_again_and_said_once(account):
    _, newer = account.start(), account.start()
    account.aws.fail("StopPipelineExecution", "AccessDeniedException", times=1)
    with pytest.raises(Exception, match="AccessDenied"):
        account.becomes(newer, "Executing")
    assert account.statuses() == ["Executing", "Executing"]
    account.becomes(newer, "Executing")
    assert account.statuses() == ["Executing", "Stopped"]
    assert len(account.messages()) == 1


def test_one_that_ends_by_itself_meanwhile_is_no_error(account):
    _, newer = account.start(), account.start([{"status": "Executing"}, {"status": "Succeeded"}])
    account.aws.fail("StopPipelineExecution", "ValidationException", times=1)
    account.aws.client("sagemaker").describe_pipeline_execution(PipelineExecutionArn=newer)
    account.becomes(newer, "Executing")
    assert account.statuses() == ["Executing", "Succeeded"]


def test_an_execution_that_is_not_on_the_list_yet_is_seen_by_its_event(account):
    account.start()
    newer = account.start([{"status": "Executing", "unlisted": True}])
    account.becomes(newer, "Executing")
    assert account.statuses() == ["Executing", "Stopped"]


def test_one_that_was_deleted_meanwhile_is_no_overlap(account):
    account.start()
    assert account.becomes(account.start([{"gone": True, "unlisted": True}]), "Executing") == []


starts = st.lists(
    st.tuples(
        st.integers(0, 3).map(lambda seconds: START + timedelta(seconds=seconds)),
        st.sampled_from(["Executing", "Stopping", "Stopped", "Failed", "Succeeded"]),
    ),
    max_size=8,
)


@pytest.mark.slow
@given(starts=starts, order=st.randoms(use_true_random=False))
def test_whoever_looks_finds_the_same_one_to_keep_and_it_is_the_oldest(starts, order):
    from notifier.overlap import Execution, overlap_of  # noqa: PLC0415

    executions = [
        Execution(started, f"arn:{number}", status)
        for number, (started, status) in enumerate(starts)
    ]
    executing = [item for item in executions if item.status == "Executing"]
    shuffled = list(executions)
    order.shuffle(shuffled)
    found = overlap_of(shuffled)
    assert found == overlap_of(executions)
    if len(executing) < 2:
        assert found is None
        return
    assert found is not None
    assert {found.oldest, *found.newer} == set(executing)
    assert all(found.oldest.started <= item.started for item in found.newer)
