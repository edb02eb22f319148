"""What a month came to: saved and spent, audits, the registered arm's age, once to people."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from compilegate.advice import Range
from compilegate.advice.told.foretold import Foretold, beside_outcome
from compilegate.cli import main
from compilegate.posture import names
from compilegate.posture.expected import MOST_CHARACTERS, Expected, noted, read_noted
from compilegate.posture.function.handler import lambda_handler
from compilegate.posture.machine.events import Event, Seen
from compilegate.posture.month import Money, month_before, month_of, month_page, month_text
from compilegate.posture.records.files import FileRecords
from compilegate.posture.records.keeping import decide
from compilegate.posture.records.record import Record, read_record
from compilegate.posture.state import Spent
from tests.advice.declared import experience
from tests.aws_server.client import AwsServer
from tests.posture.scenes import after, benchmark, day, seen, settled, started
from tests.posture.table import TABLE, streamed, table_in

TOPICS = Path(__file__).parents[1] / "pipelines" / "topics.toml"
PRICE = 2.0
"""Dollars an hour."""


def spent(hours: Mapping[str, float], *, jobs: int = 1, priced: bool = True) -> tuple[Spent, ...]:
    return tuple(
        Spent(
            arm=arm,
            jobs=jobs,
            seconds=jobs * each * 3600,
            usd=jobs * each * PRICE if priced else None,
        )
        for arm, each in hours.items()
    )


def execution(number: float, what: tuple[Spent, ...], *, outcome: str = "pass") -> list[Event]:
    name = f"e{number:g}"
    end = settled(name, number + 0.1, seen("fail" if outcome == "fail" else "pass"))
    arm = "baseline" if outcome == "fail" else "compiled"
    return [started(name, number), dataclasses.replace(end, spent=what, registered=arm)]


def january(*, priced: bool = True) -> list[Event]:
    """The benchmark, a week of shadow, two executions alone; then an audit, in February."""
    both = spent({"baseline": 3.0, "compiled": 2.0}, jobs=3, priced=priced)
    alone = spent({"compiled": 2.0}, priced=priced)
    return [
        benchmark(),
        *execution(0, both),
        *execution(7, both),
        *execution(14, alone),
        *execution(21, alone),
    ]


def told(record: Record, month: str = "2026-01", now: str = day(300)) -> str:
    return month_text(month_of(record, month, now=now))


def test_what_is_saved_is_the_baseline_s_own_last_job_less_the_candidate_s() -> None:
    found = month_of(after(*january()), "2026-01", now=day(300))
    assert (found.executions, found.alone, found.audits) == (4, 2, 0)
    assert found.spent == Money(seconds=(2 * 15 + 2 * 2) * 3600, usd=(2 * 15 + 2 * 2) * PRICE)
    assert found.saved == Money(seconds=2 * 3600, usd=2 * PRICE)
    assert found.registered == "compiled"
    assert found.registered_since == day(0.1)
    assert found.registered_days == pytest.approx(26.75 - 0.1, abs=0.01)
    assert found.speedup == 1.4
    assert [move.partition(",")[0] for move in found.moves] == [
        "2026-01-05: shadow -> benchmark",
        "2026-01-05: benchmark -> shadow",
        "2026-01-12: shadow -> on",
    ]


def test_a_month_that_is_not_over_counts_until_now() -> None:
    found = month_of(after(*january()), "2026-01", now=day(22))
    assert found.registered_days == pytest.approx(21.9)


def test_an_audit_costs_what_it_trains_beyond_the_candidate_s_one_job() -> None:
    events = january()
    for number in (28, 35, 42, 49, 56):
        events += execution(number, spent({"compiled": 2.0}))
    both = spent({"baseline": 3.0, "compiled": 2.0}, jobs=3)
    record = after(*events, *execution(63, both))
    assert record.state.since_audit == 0, "the eighth since the promotion was an audit"
    march = month_of(record, "2026-03", now=day(300))
    assert march.audits == 1
    assert march.audit_cost.seconds == pytest.approx((3 * 3 + 2 * 2) * 3600)
    assert march.audit_cost.usd == pytest.approx(13 * PRICE)


def test_what_is_not_known_is_not_claimed() -> None:
    record = after(*january(priced=False))
    assert "Saved: 2.00 hours, dollars unknown, by 2 executions" in told(record)
    nothing = [
        dataclasses.replace(event, spent=()) if hasattr(event, "spent") else event
        for event in january()
    ]
    assert "Saved: nothing measured; 2 more could not be measured" in told(after(*nothing))
    assert "Executions: 0, 0 of the candidate alone, 0 audits" in told(record, "2025-12")
    assert "Registered: none yet" in told(record, "2025-12")


def test_the_page_says_the_same_and_escapes_what_people_wrote() -> None:
    record = after(dataclasses.replace(benchmark(), reason="<b>new</b>"))
    month = month_of(record, "2026-01", now=day(5))
    page = month_page(dataclasses.replace(month, advice=(("Advice on x", "1.2 & more"),)))
    assert "&lt;b&gt;new&lt;/b&gt;" in page
    assert "1.2 &amp; more" in page
    assert "<b>new" not in page


EXPECTED = Expected(
    arm="compiled",
    low=1.0,
    high=1.6,
    rests_on="published",
    machine="ml.g5.xlarge",
    trains_on="ml.g5.xlarge",
)


def test_advice_stands_beside_what_was_measured_in_the_words_of_a_report() -> None:
    events = [
        *executed_with(0, seen("pass", speedup=1.7, upper=1.8)),
        *executed_with(7, seen("pass", upper=1.5)),
        *executed_with(14, seen("pass")),
    ]
    month = month_of(after(*events), "2026-01", now=day(300), expected=[EXPECTED])
    told_before = Foretold(
        option="torch-compile",
        speedup=Range(1.0, 1.6),
        rests_on="published",
        machine="ml.g5.xlarge",
    )
    measured = experience(speedup=Range(1.4, 1.5), instance_type="ml.g5.xlarge")
    ((_, sentence),) = beside_outcome([told_before], [measured])
    assert month.advice == (("Advice on compiled", sentence),)
    assert f"Advice on compiled: {sentence}" in month_text(month)
    assert f"<td>{sentence}</td>" in month_page(month)
    assert month_of(after(*events), "2026-02", now=day(300), expected=[EXPECTED]).advice == ()
    other = dataclasses.replace(EXPECTED, arm="another")
    assert month_of(after(*events), "2026-01", now=day(300), expected=[other]).advice == ()


def executed_with(number: float, what: Seen) -> list[Event]:
    return [started(f"e{number:g}", number), settled(f"e{number:g}", number + 0.1, what)]


def test_a_record_from_before_the_upper_end_reads_as_it_was_written() -> None:
    record = after(*january())
    assert "speedup_upper" not in record.to_json()
    assert read_record(record.to_json(), "news") == record
    newer = after(*january(), *executed_with(28, seen("pass", upper=1.5)))
    assert read_record(newer.to_json(), "news") == newer


def test_what_is_noted_fits_into_a_function_s_variables() -> None:
    assert read_noted(noted([EXPECTED])) == (EXPECTED,)
    many = [dataclasses.replace(EXPECTED, arm=f"arm-{number}") for number in range(50)]
    text = noted(many)
    assert len(text) <= MOST_CHARACTERS
    kept = read_noted(text)
    assert list(kept) == many[: len(kept)]
    assert len(kept) > 10


def test_the_month_before_goes_by_utc() -> None:
    assert month_before("2026-03-01T00:30:00+02:00") == "2026-01"
    assert month_before("2026-03-01T07:00:00+00:00") == "2026-02"
    assert month_before("2026-01-31T07:00:00+00:00") == "2025-12"


@pytest.mark.slow
def test_a_person_asks_for_a_month_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workloads").mkdir()
    text = TOPICS.read_text(encoding="utf-8") + "\n[posture]\n"
    (tmp_path / "workloads" / "topics.toml").write_text(text)
    for event in january():
        decide(FileRecords(tmp_path / ".compilegate" / "posture"), "topics", event)

    def asked(*more: str) -> str:
        return CliRunner().invoke(main, ["posture", "topics", *more]).output

    assert "Saved: 2.00 hours, 4.00 USD" in asked("--month", "2026-01")
    assert json.loads(asked("--month", "2026-01", "--json"))["alone"] == 2
    asked("--month", "2026-01", "--output", "month.html")
    assert "topics, 2026-01" in (tmp_path / "month.html").read_text()
    assert "--month is '2026-13', expected a month such as" in asked("--month", "2026-13")


@pytest.mark.slow
def test_the_function_puts_a_month_into_the_table_once(
    aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = table_in(aws)
    for event in (*january(), *executed_with(24, seen("pass", upper=1.5))):
        decide(records, "topics", event)
    for name, value in {
        **aws.environment,
        "AWS_DEFAULT_REGION": aws.environment["AWS_REGION"],
        names.TABLE_VARIABLE: TABLE,
        names.DAY_VARIABLE: day(27),
        names.EXPECTED_VARIABLE: noted([EXPECTED]),
    }.items():
        monkeypatch.setenv(name, value)
    asked = {names.ACT: names.MONTH, "workload": "topics"}
    answer = lambda_handler(asked, None)
    assert (answer["month"], answer["told"]) == ("2026-01", "yes")
    assert lambda_handler(asked, None)["told"] == "no"
    newest = streamed(aws)[-1]["dynamodb"]["NewImage"]
    assert newest["part"] == {"S": "month/2026-01"}
    assert newest["moved"] == {"S": "month"}
    assert "Saved: 2.00 hours, 4.00 USD" in newest["text"]["S"]
    said = "Advice on compiled: 1.00 to 1.60 times as fast was expected for ml.g5.xlarge"
    assert said in newest["text"]["S"]
    decide(records, "topics", started("later", 28))
