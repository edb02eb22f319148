"""What is kept of a posture, and when it is believed."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.posture.contract import Policy
from compilegate.posture.records import (
    ConflictError,
    DamagedRecordError,
    FileRecords,
    PostureError,
    Record,
    current,
    decide,
    encoded,
    read_record,
    replayed,
)
from compilegate.posture.state import ALL_TRAIN, Event, Posture
from tests.posture.scenes import (
    HERE,
    after,
    benchmark,
    day,
    put,
    seen,
    settled,
    started,
    turned_on,
)

ORDER = {
    Posture.OFF: 0,
    Posture.REVERTED: 0,
    Posture.BENCHMARK: 1,
    Posture.SHADOW: 2,
    Posture.ON: 3,
}


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Any order of starts, ends, people and changed images."""
    events: list[Event] = []
    outcomes = st.sampled_from(["pass", "fail", "inconclusive"])
    for number in range(draw(st.integers(0, 25))):
        name = f"e{draw(st.integers(0, 6))}"
        match draw(st.integers(0, 9)):
            case 0:
                events.append(benchmark(number))
            case 1:
                events.append(put(draw(st.sampled_from(list(Posture))), number, "compiled"))
            case 2 | 3 | 4 | 5:
                image = draw(st.sampled_from(["i1", "i1", "i1", "i2"]))
                events.append(started(name, 3 * number, fingerprint={**HERE, "image": image}))
            case _:
                difference = draw(st.floats(-0.1, 0.1))
                what = seen(draw(outcomes), difference=difference, value=0.9 + difference)
                events.append(settled(name, 3 * number, what))
    return events


@pytest.mark.slow
@given(histories())
def test_the_decisions_replay_to_the_same_state(events: list[Event]) -> None:
    record = after(*events)
    assert read_record(record.to_json(), "news") == record
    assert replayed("news", [decision.event for decision in record.decisions]) == record


@pytest.mark.slow
@given(histories())
def test_no_verdict_moves_a_posture_up_by_more_than_one_step(events: list[Event]) -> None:
    for decision in after(*events).decisions:
        if type(decision.event).__name__ == "Settled":
            assert ORDER[decision.after] - ORDER[decision.before] <= 1
        assert decision.reason


@pytest.mark.slow
@given(histories())
def test_a_candidate_trains_alone_only_in_on_and_with_a_name(events: list[Event]) -> None:
    record = after(*events)
    for plan in record.state.open.values():
        if plan.posture in ALL_TRAIN:
            assert plan.arms == "all"
        elif plan.posture is not Posture.ON:
            assert plan.arms == "baseline"
        else:
            assert plan.arms in {"all", "compiled"}


@pytest.mark.slow
@given(st.data())
def test_a_damaged_record_means_shadow(data: st.DataObject) -> None:
    text = turned_on().to_json()
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(["", "x", "0", "}", "off"])) + text[at + 1 :]
    if encoded_or_none(damaged) == json.loads(text):
        return
    with pytest.raises(DamagedRecordError):
        read_record(damaged, "news")


def encoded_or_none(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def test_the_record_of_another_workload_is_refused() -> None:
    with pytest.raises(DamagedRecordError, match="its workload is 'news', expected other"):
        read_record(turned_on().to_json(), "other")


def test_a_record_whose_state_was_edited_is_not_believed(tmp_path: Path) -> None:
    records = FileRecords(tmp_path)
    decide(records, "news", put(Posture.OFF))
    path = records.path("news")
    path.write_text(path.read_text().replace('"posture": "off"', '"posture": "on"', 1))
    record = current(records, "news", when=day(1), who="schedule")
    assert record.state.posture is Posture.SHADOW
    assert "the record was damaged" in record.state.reason
    decide(records, "news", started("e", 1))
    assert [found.name for found in tmp_path.glob("*.damaged-*")] == ["news.json.damaged-1"]
    assert current(records, "news", when=day(1), who="me").state.posture is Posture.SHADOW


@pytest.mark.parametrize("text", ["", "null", "[]", "\x00", '{"version": 1}', "9" * 5000])
def test_whatever_lies_there_instead_of_a_record_means_shadow(tmp_path: Path, text: str) -> None:
    (tmp_path / "news.json").write_text(text)
    record = decide(FileRecords(tmp_path), "news", started("e", 1))
    assert record.state.open["e"].arms == "all"
    assert record.state.posture is Posture.SHADOW


def test_a_write_on_a_record_that_has_changed_is_refused(tmp_path: Path) -> None:
    records = FileRecords(tmp_path)
    _, tag = current(records, "news", when=day(0), who="me")
    decide(records, "news", benchmark())
    with pytest.raises(ConflictError):
        records.write("news", Record(workload="news").to_json(), tag=tag)


MOST_SECONDS = 600
"""For what takes seconds on a machine that is not busy; what hangs then ends with this process."""


def _start_and_settle(folder: Path, number: int) -> None:
    records = FileRecords(folder)
    for turn in range(5):
        name = f"e{number}-{turn}"
        decide(records, "news", started(name, turn))
        decide(records, "news", settled(name, turn, seen("inconclusive")))


@pytest.mark.slow
def test_executions_that_overlap_lose_no_decision(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_start_and_settle, args=(tmp_path, number), daemon=True)
        for number in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(MOST_SECONDS)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    record = current(FileRecords(tmp_path), "news", when=day(1), who="me")
    assert record.revision == 30
    assert not record.state.open


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    with pytest.raises(PostureError, match="allowed: letters"):
        FileRecords(tmp_path).path("../news")


def test_a_policy_is_read_back_and_refuses_what_it_does_not_know() -> None:
    policy = Policy(passes=5, shadow_days=3.5)
    assert Policy.read(policy.document()) == policy
    assert encoded(policy) == policy.document()
    with pytest.raises(PostureError, match=r"unknown key looks, allowed: passes"):
        Policy.read({"looks": 3})
    with pytest.raises(PostureError, match=r"posture\.passes is 0"):
        Policy.read({"passes": 0})
