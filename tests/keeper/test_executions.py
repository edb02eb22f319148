"""What the keeper does about executions: overlap, budget, failures, notices, cards, lost jobs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.infra.keeper.executions import Execution, overdue, running, spent, unstarted_since
from compilegate.infra.keeper.settings import Limits
from tests.keeper.account import BUCKET, OWN, Account

pytestmark = pytest.mark.slow
START = datetime(2026, 8, 1, 3, tzinfo=UTC)
JOB = "arn:aws:sagemaker:us-east-1:123456789012:training-job/pipelines-abc-Train-fast-1"
FAILED = {
    "status": "Failed",
    "failure": "Step failure: One or multiple steps failed.",
    "at": 60,
    "steps": [
        {"StepName": "Prepare", "StepStatus": "Succeeded", "Metadata": {"ProcessingJob": {}}},
        {
            "StepName": "Train-fast-1",
            "StepStatus": "Failed",
            "FailureReason": "AlgorithmError: exit code 1:\nValueError: the label mystery is unknown",
            "Metadata": {"TrainingJob": {"Arn": JOB}},
        },
        {"StepName": "Train-fast-2", "StepStatus": "Stopped"},
    ],
}
REJECTED = {
    "status": "Failed",
    "steps": [
        {
            "StepName": "Reject",
            "StepStatus": "Failed",
            "Metadata": {"Fail": {"ErrorMessage": "No model is sound."}},
        }
    ],
}


# Overlap


def test_an_execution_that_starts_while_another_runs_is_stopped_and_that_is_said(
    account: Account,
) -> None:
    older, newer = account.start(), account.start()
    account.becomes(newer, "Executing")
    account.becomes(older, "Executing")  # its own event is late
    assert account.statuses() == ["Executing", "Stopped"]
    (said,) = account.messages()
    assert newer[-12:] in said["Subject"]
    assert said["Subject"].startswith("[info] topics: ")
    assert f"compilegate aws watch {older}" in said["Message"]


def test_an_execution_alone_runs_on_and_nothing_is_said(account: Account) -> None:
    account.stop(account.start())
    assert account.becomes(account.start(), "Executing") == {"sent": []}
    assert account.statuses() == ["Stopped", "Executing"]


def test_two_deliveries_at_one_moment_stop_it_once_and_say_it_once(account: Account) -> None:
    _, newer = account.start(), account.start()
    account.look()  # makes the clients, which threads cannot at once
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(lambda _: account.becomes(newer, "Executing")["sent"], range(4)))
    assert sorted(map(len, said)) == [0, 0, 0, 1]
    assert account.statuses() == ["Executing", "Stopped"]


def test_what_could_not_be_stopped_is_tried_again_and_said_once(account: Account) -> None:
    for _ in range(11):
        account.stop(account.start())  # a page of ended ones lies between
    older, newer = account.start(), account.start()
    account.aws.fail("StopPipelineExecution", "AccessDeniedException", times=1)
    with pytest.raises(Exception, match="AccessDenied"):
        account.becomes(newer, "Executing")
    account.becomes(newer, "Executing")
    assert dict(account.executions())[newer] == "Stopped"
    assert dict(account.executions())[older] == "Executing"
    assert len(account.messages()) == 1


def test_one_that_ends_by_itself_meanwhile_is_no_error(account: Account) -> None:
    _, newer = account.start(), account.start([{"status": "Executing"}, {"status": "Succeeded"}])
    account.aws.fail("StopPipelineExecution", "ValidationException", times=1)
    account.aws.client("sagemaker").describe_pipeline_execution(PipelineExecutionArn=newer)
    account.becomes(newer, "Executing")
    assert account.statuses() == ["Executing", "Succeeded"]


@pytest.mark.parametrize(
    ("frame", "after"),
    [
        ({"status": "Executing", "unlisted": True}, "Stopped"),
        ({"gone": True, "unlisted": True}, None),
    ],
)
def test_the_list_of_executions_may_lag_behind(
    account: Account, frame: dict[str, Any], after: str | None
) -> None:
    account.start()
    account.becomes(account.start([frame]), "Executing")
    assert account.statuses()[1:] == ([after] if after else [])


@given(
    starts=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["Executing", "Stopping", "Failed"]))
    ),
    order=st.randoms(use_true_random=False),
)
def test_whoever_looks_finds_the_same_one_to_keep_and_it_is_the_oldest(
    starts: list[tuple[int, str]], order: Any
) -> None:
    executions = [
        Execution(START + timedelta(seconds=seconds), f"arn:{number}", status)
        for number, (seconds, status) in enumerate(starts)
    ]
    shuffled = list(executions)
    order.shuffle(shuffled)
    found = running(shuffled)
    assert found == running(executions)
    assert {each.status for each in found} <= {"Executing"}
    assert all(found[0].started <= each.started for each in found)


# Limits


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"month_usd": 10.0, "most_usd": 10.5, "rates": {"1.4": ["Train-baseline-1"]}}, "Stopped"),
        ({"month_usd": 10.0, "most_usd": 10.0, "rates": {}}, "Executing"),
        ({"hours": 72}, "Executing"),
    ],
)
def test_a_start_that_the_month_does_not_allow_is_stopped_and_that_is_said_once(
    account: Account, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], status: str
) -> None:
    monkeypatch.setenv("LIMITS", json.dumps(limits))
    execution = account.start()
    account.becomes(execution, "Executing")
    account.becomes(execution, "Executing")
    assert account.statuses() == [status]
    assert len(account.messages()) == (status == "Stopped")


def test_steps_cost_what_they_took_and_cached_ones_nothing() -> None:
    limits, hour = Limits(rates={"2": ["a", "b"], "0.5": ["c"]}), timedelta(hours=1)
    steps = [
        {"StepName": "a", "StartTime": START, "EndTime": START + hour},
        {"StepName": "b", "StartTime": START},
        {"StepName": "c", "StartTime": START, "EndTime": START + 2 * hour, "CacheHitResult": {}},
        {"StepName": "d", "StartTime": START, "EndTime": START + hour},
        {"StepName": "c"},
    ]
    assert spent(limits, steps, START + hour / 2) == pytest.approx(3.0)


def test_an_execution_that_does_not_end_is_found() -> None:
    run, ended = Execution(START, "arn:1", "Executing"), Execution(START, "arn:2", "Succeeded")
    limits = Limits(hours=2)
    assert overdue(limits, [run, ended], START + timedelta(hours=2)) == []
    assert overdue(limits, [run, ended], START + timedelta(hours=3)) == [run]
    assert overdue(Limits(), [run], START + timedelta(days=9)) == []


def test_a_schedule_that_starts_nothing_is_found_but_not_after_a_deployment() -> None:
    limits, week = Limits(gap_hours=174), timedelta(days=7)
    before, last = START - 9 * week, Execution(START, "arn:last", "Succeeded")
    later = START + 2 * week
    assert unstarted_since(limits, [last], before, START + week) is None
    assert unstarted_since(limits, [last], before, later) == START
    assert unstarted_since(limits, [last], later, later + week) is None
    assert unstarted_since(limits, [], START, later) == START
    assert unstarted_since(Limits(), [last], before, later) is None


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"hours": 72, "gap_hours": 174}, []),
        ({"hours": 0}, ["[action needed]"]),
        ({"gap_hours": 0}, ["[action needed]"]),
    ],
)
def test_the_hourly_look_tells_once_of_what_no_event_tells(
    account: Account, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], said: list[str]
) -> None:
    monkeypatch.setenv("LIMITS", json.dumps(limits))
    account.start()
    found = account.look()
    assert [subject.partition(" topics")[0] for subject in found] == said
    assert account.look() == []


# Ends


def test_a_failure_names_the_step_its_last_lines_its_log_and_what_to_do(account: Account) -> None:
    arn = account.start([FAILED])
    account.becomes(arn, "Failed")
    (said,) = account.messages()
    subject = f"[action needed] topics: execution {arn[-12:]} failed at Train-fast-1"
    assert said["Subject"] == subject
    text = said["Message"]
    assert "    ValueError: the label mystery is unknown" in text
    assert "/jobs/pipelines-abc-Train-fast-1" in text
    assert (
        "#logsV2:log-groups/log-group/$252Faws$252Fsagemaker$252FTrainingJobs"
        "$3FlogStreamNameFilter$3Dpipelines-abc-Train-fast-1$252F" in text
    )
    assert f"compilegate aws watch {arn}" in text
    assert "Train-fast-2" not in text


def test_a_failure_is_said_once_and_that_of_a_retry_again(account: Account) -> None:
    arn = account.start([FAILED, FAILED, {**FAILED, "at": 900}])
    for _ in range(3):
        account.becomes(arn, "Failed")
    assert len(account.messages()) == 2


def test_a_failure_without_a_failed_step_tells_what_the_service_says(account: Account) -> None:
    account.becomes(account.start([{"status": "Failed", "failure": "No role."}]), "Failed")
    assert "The service says: No role." in account.messages()[0]["Message"]


def test_a_gate_that_registers_nothing_is_told_in_its_own_words_in_one_message(
    account: Account,
) -> None:
    first = account.start([REJECTED])
    account.becomes(first, "Failed")
    assert "    No model is sound." in account.messages()[0]["Message"]
    second = account.start([REJECTED])
    account.notice(second, send=True, subject="topics: nothing released", message="Why not.")
    account.becomes(second, "Failed")
    assert account.subjects()[1:] == ["[action needed] topics: nothing released"]
    assert account.messages()[1]["Message"].startswith("Why not.\n")


def test_a_failure_that_could_not_be_published_is_said_when_it_is_delivered_again(
    account: Account,
) -> None:
    arn = account.start([FAILED])
    account.aws.fail("Publish", "InternalError", times=1)
    with pytest.raises(Exception, match="InternalError"):
        account.becomes(arn, "Failed")
    assert account.messages() == []
    account.becomes(arn, "Failed")
    assert len(account.messages()) == 1


def test_the_gates_notice_is_forwarded_once_with_where_the_report_is(account: Account) -> None:
    arn = account.start()
    account.notice(arn, send=True, subject="topics: fast refused")
    for _ in range(2):
        account.becomes(arn, "Succeeded")
    (said,) = account.messages()
    assert said["Subject"] == "[info] topics: fast refused"
    report = f"s3://{BUCKET}/{OWN}/verdicts/{arn.rpartition('/')[2]}/report.html"
    assert f"aws s3 cp {report} ." in said["Message"]
    kept = account.aws.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=f"{OWN}/notices/")
    assert [arn.rpartition("/")[2] in item["Key"] for item in kept["Contents"]] == [True]


@pytest.mark.parametrize("broken", [{"subject": None}, {"send": "yes"}])
def test_a_notice_that_cannot_be_read_is_an_error_that_names_it(
    account: Account, broken: dict[str, Any]
) -> None:
    arn = account.start()
    account.notice(arn, **broken)
    with pytest.raises(Exception, match=r"s3://models/.*/notice\.json is not a notice"):
        account.becomes(arn, "Succeeded")


@pytest.mark.parametrize("named", [True, False])
def test_a_registered_model_gets_the_card_that_it_names(account: Account, named: bool) -> None:
    card, key = '{"model_overview": {}}', f"{OWN}/verdicts/abc/model_card.json"
    account.write(key, card)
    model = account.register(**({"model_card": f"s3://{BUCKET}/{key}"} if named else {}))
    step = {"StepName": "Register-fast", "StepStatus": "Succeeded"}
    step |= {"Metadata": {"RegisterModel": {"Arn": model}}}
    arn = account.start([{"status": "Succeeded", "steps": [step]}])
    assert account.becomes(arn, "Succeeded") == {"sent": []}
    attached = {"ModelCardContent": card, "ModelCardStatus": "PendingReview"}
    expected = [{"ModelPackageArn": model, "ModelCard": attached}] if named else []
    assert account.aws.calls("UpdateModelPackage") == expected
    assert account.described(model)["ModelApprovalStatus"] == "PendingManualApproval"


# Lost jobs


def test_what_was_lost_is_tried_once_more(account: Account) -> None:
    first = account.start()
    account.notice(first, lost=True)
    (said,) = account.becomes(first, "Succeeded")["sent"]
    assert account.becomes(first, "Succeeded")["sent"] == []  # delivered twice
    assert len(account.statuses()) == 2
    assert account.starts()[1:] == [{"Attempt": "2"}] * 2
    assert "lost jobs, started again" in said
    newest = account.executions()[1][0]
    account.notice(newest, lost=True)
    assert account.becomes(newest, "Succeeded")["sent"] == []
    assert len(account.statuses()) == 2


@pytest.mark.parametrize("answer", ["nothing lost", "404", "403"])
def test_any_other_execution_is_left_as_it_is(account: Account, answer: str) -> None:
    """S3 answers 403 for what is not there, to a role that may not list the prefix."""
    execution = account.start()
    if answer == "nothing lost":
        account.notice(execution, lost=False)
    if answer == "403":
        account.aws.fail("S3:GET", "AccessDenied", status=403, times=1)
    assert account.becomes(execution, "Succeeded") == {"sent": []}
    assert len(account.statuses()) == 1
