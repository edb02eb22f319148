"""What is stored of a posture, in a folder and in a table, and when it is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.posture.contract import Policy, PostureError
from compilegate.posture.records import (
    UNREADABLE,
    ConflictError,
    DamagedRecordError,
    FileRecords,
    Record,
    Records,
    current,
    decide,
    decoded,
    read_record,
)
from compilegate.posture.state import ALL_TRAIN, Event, Posture, Settled
from tests.aws_server.client import AwsServer
from tests.posture.scenes import (
    HERE,
    TABLE,
    after,
    benchmark,
    day,
    put,
    seen,
    settled,
    started,
    table_in,
    turned_on,
)

ORDER = [Posture.BENCHMARK, Posture.SHADOW, Posture.ON]
EVENTS = (benchmark(), started("e0", 0), settled("e0", 0.1, seen("pass")), started("e1", 7))


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Any order of starts, ends, people and changed images."""
    events: list[Event] = []
    for number in range(draw(st.integers(0, 25))):
        name = f"e{draw(st.integers(0, 6))}"
        match draw(st.integers(0, 9)):
            case 0 | 1:
                events.append(put(draw(st.sampled_from(list(Posture))), number, "compiled"))
            case 2 | 3 | 4 | 5:
                image = draw(st.sampled_from(["i1", "i1", "i1", "i2"]))
                events.append(started(name, 3 * number, fingerprint={**HERE, "image": image}))
            case _:
                outcome = draw(st.sampled_from(["pass", "fail", "inconclusive"]))
                difference = draw(st.floats(-0.1, 0.1))
                what = seen(outcome, difference=difference, value=0.9 + difference)
                events.append(settled(name, 3 * number, what))
    return events


@pytest.mark.slow
@given(histories())
def test_laws_of_every_history(events: list[Event]) -> None:
    record = after(*events)
    assert read_record(record.to_json(), "news") == record, "decisions replay to the same state"
    for decision in record.decisions:
        assert decision.reason
        if isinstance(decision.event, Settled) and decision.after in ORDER[1:]:
            step_below = ORDER[ORDER.index(decision.after) - 1]
            assert decision.before in {step_below, decision.after}, "one step up at most"
    for plan in record.state.open.values():
        alone = {"all", "compiled"} if plan.posture is Posture.ON else {"baseline"}
        assert plan.arms in ({"all"} if plan.posture in ALL_TRAIN else alone)


@pytest.mark.slow
@given(st.data())
def test_a_damaged_record_is_not_believed(data: st.DataObject) -> None:
    text = turned_on().to_json()
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(["", "x", "0", "}", "off"])) + text[at + 1 :]
    try:
        unchanged = json.loads(damaged) == json.loads(text)
    except ValueError:
        unchanged = False
    if not unchanged:
        with pytest.raises(DamagedRecordError):
            read_record(damaged, "news")


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "\x00", '{"version": 4}', "9" * 5000, Record(workload="other").to_json()],
)
def test_whatever_is_in_place_of_a_record_means_shadow_and_is_kept(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "news.json").write_text(text)
    record = decide(FileRecords(tmp_path), "news", started("e", 1))
    assert (record.state.posture, record.state.open["e"].arms) == (Posture.SHADOW, "all")
    assert (tmp_path / "news.json.damaged-1").read_text() == text
    assert stored(FileRecords(tmp_path)) == record


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    with pytest.raises(PostureError):
        FileRecords(tmp_path).path("../news")


@pytest.mark.parametrize("wrong", [{"looks": 3}, {"passes": "4"}, {"passes": True}])
def test_a_policy_refuses_what_it_does_not_know(wrong: dict[str, object]) -> None:
    with pytest.raises(UNREADABLE):
        decoded(Policy, wrong)


# The same in a folder and in a table


@pytest.fixture(params=["folder", pytest.param("table", marks=pytest.mark.slow)])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Records:
    if request.param == "folder":
        return FileRecords(tmp_path)
    return table_in(request.getfixturevalue("aws"))


def stored(records: Records) -> Record:
    return current(records, "news", when=day(0), who="test")


@pytest.mark.parametrize("events", [(), EVENTS])
def test_what_was_decided_is_read_again_and_a_stale_copy_does_not_replace_it(
    records: Records, events: tuple[Event, ...]
) -> None:
    for event in events:
        decide(records, "news", event)
    decide(records, "sport", put(Posture.OFF))
    before = stored(records)
    assert before == after(*events)
    decided = decide(records, "news", put(Posture.OFF, 1))
    with pytest.raises(ConflictError):
        records.write(before.after(benchmark(1)))
    assert stored(records) == decided


@pytest.mark.slow
def test_executions_that_overlap_lose_no_decision(records: Records) -> None:
    def execute(name: str) -> None:
        decide(records, "news", started(name, 1))
        decide(records, "news", settled(name, 2, seen("inconclusive")))

    with ThreadPoolExecutor() as pool:
        list(pool.map(execute, [f"e{number}" for number in range(6)]))
    assert (len(stored(records).decisions), stored(records).state.open) == (12, {})


# Only in a table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "attribute", "damaged"),
    [
        ("head", "document", lambda text: text.replace('"posture": "on"', '"posture": "off"')),
        ("head", "document", lambda _: "not JSON"),
        ("head", "document", lambda _: None),
        ("0001/000001", "decision", lambda text: text.replace("a wish", "another wish")),
        ("head", "part", lambda _: None),
    ],
)
def test_a_damaged_record_stays_and_a_new_one_begins(
    aws: AwsServer, part: str, attribute: str, damaged: Callable[[str], str | None]
) -> None:
    records, client = table_in(aws), aws.client("dynamodb")
    decide(records, "news", put(Posture.ON, 0, "compiled"))
    key = {"workload": {"S": "news"}, "part": {"S": part}}
    item = client.delete_item(TableName=TABLE, Key=key, ReturnValues="ALL_OLD")["Attributes"]
    read_by_people = {"posture": "on"} if part == "head" else {"after": "on", "who": "anna"}
    assert {name: item[name]["S"] for name in read_by_people} == read_by_people
    text = damaged(item.pop(attribute)["S"])
    if text is not None:
        item[attribute] = {"S": text}
    if attribute != "part":
        client.put_item(TableName=TABLE, Item=item)
    decide(records, "news", started("e1", 1))
    assert stored(records).state.posture is Posture.SHADOW
    decisions = [f"0002/{number:06}" for number, _ in enumerate(stored(records).decisions, 1)]
    parts = {item["part"]["S"] for item in client.scan(TableName=TABLE)["Items"]}
    assert parts == {"0001/000001", *decisions, "head"}
