"""The posture's steps, executions that ended before their gate, and who hears of what moved."""

from __future__ import annotations

import dataclasses
import json

import pytest

from compilegate.posture.contract import Policy
from compilegate.posture.records import DynamoRecords, current, decide
from compilegate.posture.state import Posture
from tests.keeper.account import Account
from tests.keeper.test_executions import FAILED
from tests.posture.scenes import day, put, seen, settled, started
from tests.posture.table import table_in

pytestmark = pytest.mark.slow


@pytest.fixture
def records(with_posture: Account) -> DynamoRecords:
    return table_in(with_posture.aws)


def start(account: Account, execution: str) -> dict[str, str]:
    """The pipeline's first Lambda step."""
    step = {
        "act": "start",
        "workload": "topics",
        "execution": execution,
        "policy": json.dumps(dataclasses.asdict(Policy())),
        "fingerprint": "{}",
        "candidates": "fast",
    }
    return account.handler(step, None)


def test_a_step_is_answered_though_nobody_is_told(account: Account, records: DynamoRecords) -> None:
    decide(records, "topics", put(Posture.BENCHMARK))
    account.aws.fail("Publish", "InternalError", times=1)
    answer = start(account, "e1")
    assert (answer["arms"], answer["posture"]) == ("all", "benchmark")
    assert start(account, "e1") == answer
    assert account.subjects() == ["[info] topics: posture shadow -> benchmark"]


def test_every_change_is_told_once(account: Account, records: DynamoRecords) -> None:
    decide(records, "topics", put(Posture.BENCHMARK))
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


def test_an_old_change_is_not_told(
    account: Account, records: DynamoRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(records, "topics", put(Posture.OFF))
    monkeypatch.setenv("COMPILEGATE_POSTURE_DAY", day(8))
    assert account.look() == []


def test_a_candidate_that_crashed_is_refused(account: Account, records: DynamoRecords) -> None:
    arn = account.start([FAILED])
    start(account, arn.rpartition("/")[2])
    for _ in range(2):
        account.becomes(arn, "Failed")
    state = current(records, "topics", when=day(4), who="test").state
    assert state.posture is Posture.REVERTED
    assert len(account.statuses()) == 2, "one rescue, however often the event comes"
    assert sorted(account.subjects()) == [
        f"[action needed] topics: execution {arn[-12:]} failed at Train-fast-1",
        "[action needed] topics: posture shadow -> reverted",
    ]


def test_a_stopped_execution_shows_nothing(account: Account, records: DynamoRecords) -> None:
    arn = account.start()
    start(account, arn.rpartition("/")[2])
    account.stop(arn)
    assert account.becomes(arn, "Stopped") == {"sent": []}
    record = current(records, "topics", when=day(4), who="test")
    assert not record.state.open
    assert record.state.posture is Posture.SHADOW
    assert len(account.statuses()) == 1
