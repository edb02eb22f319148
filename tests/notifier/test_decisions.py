"""A posture that moves is told once, whoever moved it, from the stream of its table."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from compilegate.posture.records import decide
from compilegate.posture.state import Posture
from tests.notifier.account import Account
from tests.posture.scenes import benchmark, put, seen, settled, started
from tests.posture.table import streamed, table_in

pytestmark = pytest.mark.slow


def told(account: Account) -> list[str]:
    """Deliver the whole stream, as Lambda does; returns the subjects of what was said."""
    records: list[dict[str, Any]] = json.loads(json.dumps(streamed(account.aws), default=str))
    return account.handler({"Records": records}, None)["sent"]


def test_every_change_is_told_once_and_nothing_else(account: Account) -> None:
    records = table_in(account.aws)
    decide(records, "topics", benchmark())
    assert told(account) == ["topics: posture shadow -> benchmark"]
    decide(records, "topics", started("e0", 0))
    decide(records, "topics", settled("e0", 0.1, seen("pass")))
    assert told(account) == ["topics: posture benchmark -> shadow"]
    decide(records, "topics", started("e1", 1))
    decide(records, "topics", settled("e1", 1.1, seen("inconclusive")))
    assert told(account) == []
    assert len(account.messages()) == 2


def test_the_message_says_what_happened_what_was_registered_and_what_to_do(
    account: Account,
) -> None:
    records = table_in(account.aws)
    broken = dataclasses.replace(seen("fail"), broken=True)
    decide(records, "topics", put(Posture.BENCHMARK))
    decide(records, "topics", started("e0", 0))
    decide(records, "topics", settled("e0", 0.1, broken))
    told(account)
    text = account.messages()[-1]["Message"]
    assert "went from benchmark to reverted" in text
    assert "Why: compiled was refused: fail by the gate" in text
    assert "Registered: the model of baseline" in text
    assert "The baseline trains alone and is registered" in text
    assert "compilegate posture topics reset --aws --reason WHY" in text


def test_a_change_by_a_person_names_the_person_and_the_reason(account: Account) -> None:
    decide(table_in(account.aws), "topics", put(Posture.OFF))
    told(account)
    (message,) = account.messages()
    assert message["Subject"] == "topics: posture shadow -> off"
    assert "decided by anna" in message["Message"]
    assert "set by anna: a wish" in message["Message"]


def test_a_notice_of_an_arm_that_trained_alone_is_forwarded(account: Account) -> None:
    from tests.notifier.test_notifications import NOTICE, gate_job  # noqa: PLC0415

    arn = account.start()
    job = gate_job(account, NOTICE)
    assert account.gate_succeeds(arn, job, step="Gate-compiled-alone") == [NOTICE["subject"]]
    assert account.gate_succeeds(arn, job, step="Gather-1") == []
