"""A workload's executions as events, with days that a test sets; and an empty table of records."""

from __future__ import annotations

import datetime
from typing import Any

from compilegate.posture.contract import Policy
from compilegate.posture.records import DynamoRecords, Record
from compilegate.posture.state import (
    Chosen,
    Difference,
    Event,
    Outcome,
    Plan,
    Posture,
    Seen,
    Settled,
    Started,
)
from tests.aws_server.client import AwsServer

TABLE = "records"
FIRST = datetime.datetime(2026, 1, 5, 6, tzinfo=datetime.UTC)
HERE = {"code": "c1", "data": "d1", "image": "i1", "instance": "ml.g5.2xlarge", "libraries": "l1"}


def day(number: float) -> str:
    """A day of the test's year, at six."""
    return (FIRST + datetime.timedelta(days=number)).isoformat()


def started(name: str, number: float, **members: Any) -> Started:
    """An execution begins, with a policy of two passes."""
    usual = {"policy": Policy(passes=2), "candidates": ("compiled",), "fingerprint": HERE}
    return Started(execution=name, when=day(number), who="schedule", **{**usual, **members})


def seen(outcome: Outcome, *, difference: float = 0.0, value: float = 0.9, **members: Any) -> Seen:
    """What the gate found of the candidate, whose margin is 0.02."""
    compared = Difference(
        metric="accuracy", difference=difference, standard_error=0.01, margin=0.02
    )
    return Seen(
        outcome=outcome,
        reason=f"{outcome} by the gate",
        differences=(compared,),
        values={"accuracy": value},
        **{"arm": "compiled", "speedup": 1.4, **members},
    )


def settled(name: str, number: float, *what: Seen, **members: Any) -> Settled:
    """An execution ends, with the baseline registered."""
    usual = {"registered": "baseline", **members}
    return Settled(execution=name, when=day(number), who="gate", seen=what, **usual)


def put(posture: Posture, number: float = 0, arm: str = "") -> Chosen:
    reason = "set by anna: a wish"
    return Chosen(posture=posture, when=day(number), who="anna", reason=reason, arm=arm)


def benchmark(number: float = 0) -> Chosen:
    return put(Posture.BENCHMARK, number)


def after(*events: Event) -> Record:
    return Record(workload="news").after(*events)


def executed(record: Record, number: float, *what: Seen, **start: Any) -> Record:
    """One execution, from its start to its end."""
    name = f"e{number:g}"
    return record.after(started(name, number, **start), settled(name, number + 0.1, *what))


def planned(record: Record, number: float, **start: Any) -> Plan:
    """What an execution that starts now would train."""
    return record.after(started("next", number, **start)).state.open["next"]


def turned_on() -> Record:
    """A record in which the candidate was promoted on day 7."""
    return executed(executed(after(benchmark()), 0, seen("pass")), 7.1, seen("pass"))


def table_in(aws: AwsServer) -> DynamoRecords:
    """The table of a posture as the stacks make it, in the stand-in for AWS; empty."""
    keys = {"workload": "HASH", "part": "RANGE"}
    aws.client("dynamodb").create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    return DynamoRecords(aws.client("dynamodb"), TABLE)
