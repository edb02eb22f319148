"""A record in a DynamoDB table: conditional writes, lost and damaged ones, by the real client."""

from __future__ import annotations

import threading

import pytest

from compilegate.posture.records import DynamoRecords
from compilegate.posture.records import ConflictError, Record, current, decide, replayed
from compilegate.posture.state import Posture
from tests.aws_server.client import AwsServer
from tests.posture.scenes import after, benchmark, day, put, seen, settled, started
from tests.posture.table import TABLE, parts_in, table_in

pytestmark = pytest.mark.slow


def kept(records: DynamoRecords) -> Record:
    record = current(records, "news", when=day(0), who="test")
    return record


def test_what_was_decided_is_read_again_and_replays(aws: AwsServer) -> None:
    records = table_in(aws)
    events = [benchmark(), started("e0", 0), settled("e0", 0.1, seen("pass")), started("e1", 7)]
    for event in events:
        decide(records, "news", event)
    assert kept(records) == after(*events)
    assert replayed("news", [one.event for one in kept(records).decisions]) == after(*events)
    assert parts_in(aws) == ["0001/000001", "0001/000002", "0001/000003", "0001/000004", "head"]


def test_people_can_read_where_it_stands_and_every_decision(aws: AwsServer) -> None:
    decide(table_in(aws), "news", benchmark())
    items = aws.client("dynamodb").scan(TableName=TABLE)["Items"]
    head, decision = sorted(items, key=lambda item: item["part"]["S"], reverse=True)
    assert head["posture"] == {"S": "benchmark"}
    assert head["reason"] == {"S": "reset by anna: a new compiler to try"}
    assert (decision["before"], decision["after"]) == ({"S": "shadow"}, {"S": "benchmark"})
    assert (decision["who"], decision["moved"]) == ({"S": "anna"}, {"S": "yes"})


def test_a_record_that_was_changed_meanwhile_is_not_overwritten(aws: AwsServer) -> None:
    records = table_in(aws)
    for begun in (None, benchmark()):
        if begun is not None:
            decide(records, "news", begun)
        before, tag = current(records, "news", when=day(0), who="test")
        decide(records, "news", put(Posture.OFF, 1))
        with pytest.raises(ConflictError):
            records.write("news", before.after(put(Posture.BENCHMARK, 1)).to_json(), tag=tag)
    assert kept(records).state.posture is Posture.OFF


def test_executions_that_overlap_lose_no_decision(aws: AwsServer) -> None:
    table_in(aws)
    decided = [
        threading.Thread(
            target=decide,
            args=(DynamoRecords(aws.client("dynamodb"), TABLE), "news", started(f"e{number}", 1)),
        )
        for number in range(6)
    ]
    for thread in decided:
        thread.start()
    for thread in decided:
        thread.join()
    record = kept(DynamoRecords(aws.client("dynamodb"), TABLE))
    assert sorted(record.state.open) == [f"e{number}" for number in range(6)]
    assert record.revision == 6


def test_a_lost_record_means_shadow_and_what_was_left_stays(aws: AwsServer) -> None:
    records = table_in(aws)
    decide(records, "news", put(Posture.OFF))
    aws.client("dynamodb").delete_item(
        TableName=TABLE, Key={"workload": {"S": "news"}, "part": {"S": "head"}}
    )
    assert kept(records).state.posture is Posture.SHADOW
    decide(records, "news", started("e1", 1))
    assert kept(records).state.posture is Posture.SHADOW
    assert parts_in(aws) == ["0001/000001", "0002/000001", "head"]


@pytest.mark.parametrize("damage", ["posture", "document", "decision", "no document"])
def test_a_damaged_record_means_shadow_and_a_new_one_begins(aws: AwsServer, damage: str) -> None:
    records = table_in(aws)
    decide(records, "news", put(Posture.ON, 0, "compiled"))
    head = {"workload": {"S": "news"}, "part": {"S": "head"}}
    first = {"workload": {"S": "news"}, "part": {"S": "0001/000001"}}
    client = aws.client("dynamodb")
    item = client.get_item(TableName=TABLE, Key=head)["Item"]
    if damage == "posture":
        item["document"]["S"] = item["document"]["S"].replace('"posture": "on"', '"posture": "off"')
    elif damage == "document":
        item["document"]["S"] = "not JSON"
    elif damage == "no document":
        del item["document"]
    else:
        item = client.get_item(TableName=TABLE, Key=first)["Item"]
        item["decision"]["S"] = item["decision"]["S"].replace("a wish", "another wish")
    client.put_item(TableName=TABLE, Item=item)

    assert kept(records).state.posture is Posture.SHADOW
    decide(records, "news", started("e1", 1))
    record = kept(records)
    assert record.state.posture is Posture.SHADOW
    assert "damaged" in record.decisions[0].reason
    assert parts_in(aws) == ["0001/000001", "0002/000001", "0002/000002", "head"]


def test_records_of_workloads_do_not_touch_one_another(aws: AwsServer) -> None:
    records = table_in(aws)
    decide(records, "news", put(Posture.OFF))
    decide(records, "sport", benchmark())
    assert kept(records).state.posture is Posture.OFF
    assert current(records, "sport", when=day(0), who="test").revision == 1
