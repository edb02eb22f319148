"""What the keeper does about executions: overlap, budget, failures, notices, cards, lost jobs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from compilegate.infra.keeper.executions import Execution, overdue, spent, unstarted_since
from compilegate.infra.keeper.settings import Limits
from tests.keeper.account import BUCKET, OWN, Account

pytestmark = pytest.mark.slow
START = datetime(2026, 8, 1, 3, tzinfo=UTC)
HOUR = timedelta(hours=1)
JOB = "arn:aws:sagemaker:us-east-1:123456789012:training-job/pipelines-abc-Train-fast-1"


def step(name: str, status: str, kind: str = "TrainingJob", **metadata: str) -> dict[str, Any]:
    return {"StepName": name, "StepStatus": status, "Metadata": {kind: metadata}}


WHY = "AlgorithmError: exit code 1:\nValueError: the label is unknown"
CRASHED = {**step("Train-fast-1", "Failed", Arn=JOB), "FailureReason": WHY}
STEPS = [step("Prepare", "Succeeded"), CRASHED, step("Train-fast-2", "Stopped")]
FAILED = {"status": "Failed", "failure": "One or multiple steps failed.", "steps": STEPS}
REJECT = step("Reject", "Failed", "Fail", ErrorMessage="No model is sound.")
REJECTED = {"status": "Failed", "steps": [REJECT]}


# Overlap


def test_an_execution_gives_way_to_an_older_one(account: Account) -> None:
    older = account.start()
    assert account.becomes(older, "Executing") == {"sent": []}
    newer = account.start()
    # Events come twice, and at one moment; the thread's clients are made before.
    with ThreadPoolExecutor(4) as pool:
        sent = list(pool.map(lambda _: account.becomes(newer, "Executing")["sent"], range(4)))
    assert sorted(map(len, sent)) == [0, 0, 0, 1]
    account.becomes(older, "Executing")
    assert account.statuses() == ["Executing", "Stopped"]
    (message,) = account.messages()
    assert message["Subject"].startswith("[info] topics: ")
    assert newer[-12:] in message["Subject"]
    assert f"compilegate aws watch {older}" in message["Message"]


def test_a_failed_stop_is_tried_again_and_reported_once(account: Account) -> None:
    for _ in range(11):
        account.stop(account.start())  # a page of ended ones lies between
    older, newer = account.start(), account.start()
    account.aws.fail("StopPipelineExecution", "AccessDeniedException", times=1)
    with pytest.raises(Exception, match="AccessDenied"):
        account.becomes(newer, "Executing")
    account.becomes(newer, "Executing")
    executions = account.executions()
    assert (executions[older], executions[newer]) == ("Executing", "Stopped")
    assert len(account.messages()) == 1


def test_the_list_of_executions_may_lag_behind(account: Account) -> None:
    account.start()
    account.becomes(account.start({"status": "Executing", "unlisted": True}), "Executing")
    account.becomes(account.start({"gone": True, "unlisted": True}), "Executing")
    assert account.statuses() == ["Executing", "Stopped"]


# Limits


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"month_usd": 10.0, "most_usd": 10.5, "rates": {"1.4": ["Train-baseline-1"]}}, "Stopped"),
        ({"month_usd": 10.0, "most_usd": 10.0, "rates": {}}, "Executing"),
        ({"hours": 72}, "Executing"),
    ],
)
def test_a_start_that_the_month_does_not_allow_is_stopped(
    account: Account, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], status: str
) -> None:
    monkeypatch.setenv("LIMITS", json.dumps(limits))
    execution = account.start()
    for _ in range(2):
        account.becomes(execution, "Executing")
    assert account.statuses() == [status]
    assert len(account.messages()) == (status == "Stopped")


def test_steps_cost_what_they_took_and_cached_ones_nothing() -> None:
    limits = Limits(rates={"2": ["a", "b"], "0.5": ["c"]})
    steps = [
        {"StepName": "a", "StartTime": START, "EndTime": START + HOUR},
        {"StepName": "b", "StartTime": START},
        {"StepName": "c", "StartTime": START, "EndTime": START + 2 * HOUR, "CacheHitResult": {}},
        {"StepName": "d", "StartTime": START, "EndTime": START + HOUR},
        {"StepName": "c"},
    ]
    assert spent(limits, steps, START + HOUR / 2) == pytest.approx(3.0)


@pytest.mark.parametrize(("hours", "late"), [(2, False), (3, True)])
def test_an_execution_that_does_not_end_is_found(hours: int, late: bool) -> None:
    run, ended = Execution(START, "arn:1", "Executing"), Execution(START, "arn:2", "Succeeded")
    found = overdue(Limits(hours=2), [run, ended], START + hours * HOUR)
    assert found == ([run] if late else [])


@pytest.mark.parametrize(
    ("days_ago", "changed_days_ago", "since"),
    [([7], 70, None), ([14], 70, 14), ([14], 7, None), ([], 14, 14)],
)
def test_a_schedule_that_starts_nothing_is_found(
    days_ago: list[int], changed_days_ago: int, since: int | None
) -> None:
    runs = [Execution(START - 24 * HOUR * each, "arn:last", "Succeeded") for each in days_ago]
    changed = START - 24 * HOUR * changed_days_ago
    found = unstarted_since(Limits(gap_hours=174), runs, changed, START)
    assert found == (since and START - 24 * HOUR * since)


@pytest.mark.parametrize(
    ("limits", "messages"),
    [({"hours": 72, "gap_hours": 174}, 0), ({"hours": 0}, 1), ({"gap_hours": 0}, 1)],
)
def test_the_hourly_look_tells_once_of_what_no_event_tells(
    account: Account, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], messages: int
) -> None:
    monkeypatch.setenv("LIMITS", json.dumps(limits))
    account.start()
    found = account.look()
    assert [subject.partition(" topics")[0] for subject in found] == ["[action needed]"] * messages
    assert account.look() == []


# Ends


def test_a_failure_names_the_step_its_last_lines_its_log_and_what_to_do(account: Account) -> None:
    """Once each time that it fails, also where it could not be said at first."""
    arn = account.start(FAILED, FAILED, FAILED, {**FAILED, "at": 900})
    account.aws.fail("Publish", "InternalError", times=1)
    with pytest.raises(Exception, match="InternalError"):
        account.becomes(arn, "Failed")
    assert account.messages() == []
    for _ in range(3):
        account.becomes(arn, "Failed")
    message, again = account.messages()
    subject = f"[action needed] topics: execution {arn[-12:]} failed at Train-fast-1"
    assert message["Subject"] == again["Subject"] == subject
    for part in (
        "    ValueError: the label is unknown",
        "/jobs/pipelines-abc-Train-fast-1",
        "#logsV2:log-groups/log-group/$252Faws$252Fsagemaker$252FTrainingJobs"
        "$3FlogStreamNameFilter$3Dpipelines-abc-Train-fast-1$252F",
        f"compilegate aws watch {arn}",
    ):
        assert part in message["Message"]
    assert "Train-fast-2" not in message["Message"]


def test_a_gate_that_registers_nothing_is_reported_once(account: Account) -> None:
    first, second = account.start(REJECTED), account.start(REJECTED)
    account.notice(second, send=True, subject="topics: nothing released", message="Why not.")
    for arn in (first, second, account.start({"status": "Failed", "failure": "No role."})):
        account.becomes(arn, "Failed")
    without_notice, with_notice, without_step = account.messages()
    assert "    No model is sound." in without_notice["Message"]
    assert with_notice["Subject"] == "[action needed] topics: nothing released"
    assert with_notice["Message"].startswith("Why not.\n")
    assert "The service says: No role." in without_step["Message"]


def test_the_gates_notice_is_forwarded_once_with_where_the_report_is(account: Account) -> None:
    arn = account.start()
    account.notice(arn, send=True, subject="topics: fast refused")
    for _ in range(2):
        account.becomes(arn, "Succeeded")
    (message,) = account.messages()
    assert message["Subject"] == "[info] topics: fast refused"
    report = f"s3://{BUCKET}/{OWN}/verdicts/{arn.rpartition('/')[2]}/report.html"
    assert f"aws s3 cp {report} ." in message["Message"]


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
    registered = step("Register-fast", "Succeeded", "RegisterModel", Arn=model)
    arn = account.start({"status": "Succeeded", "steps": [registered]})
    assert account.becomes(arn, "Succeeded") == {"sent": []}
    attached = {"ModelCardContent": card, "ModelCardStatus": "PendingReview"}
    expected = [{"ModelPackageArn": model, "ModelCard": attached}] if named else []
    assert account.aws.calls("UpdateModelPackage") == expected


# Lost jobs


def test_what_was_lost_is_tried_once_more(account: Account) -> None:
    first = account.start()
    account.notice(first, lost=True)
    (message,) = account.becomes(first, "Succeeded")["sent"]
    assert "lost jobs, started again" in message
    assert account.becomes(first, "Succeeded")["sent"] == []  # delivered twice
    assert account.starts()[1:] == [{"Attempt": "2"}] * 2
    _, newest = account.executions()
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
