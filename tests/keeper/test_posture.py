"""The posture's steps, executions that ended before their gate, and who hears of what moved."""

from __future__ import annotations

import dataclasses
import json

import pytest

from compilegate.posture.contract import DAY_VARIABLE, TABLE_VARIABLE, Policy
from compilegate.posture.records import DynamoRecords, current, decide
from compilegate.posture.state import Posture, State
from tests.keeper.account import Account
from tests.keeper.test_executions import FAILED
from tests.posture.scenes import TABLE, day, put, seen, settled, started, table_in

pytestmark = pytest.mark.slow


@pytest.fixture
def records(account: Account, monkeypatch: pytest.MonkeyPatch) -> DynamoRecords:
    """In the first week of the year of `tests.posture.scenes`."""
    monkeypatch.setenv(TABLE_VARIABLE, TABLE)
    monkeypatch.setenv(DAY_VARIABLE, day(4))
    return table_in(account.aws)


def start(account: Account, execution: str) -> dict[str, str]:
    """The pipeline's first Lambda step."""
    step = {
        "act": "start",
        "workload": "topics",
        "execution": execution.rpartition("/")[2],
        "policy": json.dumps(dataclasses.asdict(Policy())),
        "fingerprint": "{}",
        "candidates": "fast",
    }
    return account.handler(step, None)


def state(records: DynamoRecords) -> State:
    return current(records, "topics", when=day(4), who="test").state


def test_a_step_is_answered_without_a_message(account: Account, records: DynamoRecords) -> None:
    decide(records, "topics", put(Posture.BENCHMARK))
    account.aws.fail("Publish", "InternalError", times=1)
    answer = start(account, "e1")
    assert (answer["arms"], answer["posture"]) == ("all", "benchmark")
    assert start(account, "e1") == answer
    assert account.subjects() == ["[info] topics: posture shadow -> benchmark"]


def test_every_recent_change_is_reported_once(
    account: Account, records: DynamoRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(records, "topics", put(Posture.BENCHMARK))
    monkeypatch.setenv(DAY_VARIABLE, day(8))
    assert account.look() == [], "it is older than a week"
    monkeypatch.setenv(DAY_VARIABLE, day(4))
    assert account.look() == ["[info] topics: posture shadow -> benchmark"]
    broken = dataclasses.replace(seen("fail"), broken=True)
    decide(records, "topics", started("e0", 0))
    decide(records, "topics", settled("e0", 0.1, broken))
    assert account.look() == ["[action needed] topics: posture benchmark -> reverted"]
    assert account.look() == []
    text = account.messages()[-1]["Message"]
    assert "Why: compiled was refused: fail by the gate" in text
    assert "Registered: the model of baseline" in text
    assert "compilegate posture topics reset --aws --reason WHY" in text


def test_a_candidate_that_crashed_is_refused(account: Account, records: DynamoRecords) -> None:
    arn = account.start(FAILED)
    start(account, arn)
    for _ in range(2):
        account.becomes(arn, "Failed")
    assert state(records).posture is Posture.REVERTED
    assert len(account.statuses()) == 2, "one rescue, however often the event comes"
    assert sorted(account.subjects()) == [
        f"[action needed] topics: execution {arn[-12:]} failed at Train-fast-1",
        "[action needed] topics: posture shadow -> reverted",
    ]


def test_a_stopped_execution_shows_nothing(account: Account, records: DynamoRecords) -> None:
    arn = account.start()
    start(account, arn)
    account.stop(arn)
    assert account.becomes(arn, "Stopped") == {"sent": []}
    assert (state(records).posture, state(records).open) == (Posture.SHADOW, {})
    assert len(account.statuses()) == 1
