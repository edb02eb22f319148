"""`compilegate executions`: rows, their change points, and how they are told."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from compilegate.cli import main
from compilegate.execution.status import ExecutionStatus
from compilegate.gate.judge import judge
from compilegate.gate.verdict import Amount, Verdict
from compilegate.history.rows import (
    Past,
    Row,
    line_cells,
    line_of,
    row_cells,
    rows_of,
    saved_so_far,
)
from compilegate.posture.records import Record
from compilegate.posture.state import Posture
from tests.gate.conftest import build_execution
from tests.posture.scenes import HERE, day, put, seen, settled, started


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    execution = build_execution(candidates=("compiled",))
    return judge(execution.experiment, execution.records)


def executed(
    name: str,
    number: int,
    verdict: Verdict | None,
    status: ExecutionStatus = ExecutionStatus.SUCCEEDED,
) -> Past:
    when = datetime.datetime.fromisoformat(day(number)).timestamp()
    return Past(execution=name, started=when, status=str(status), verdict=verdict)


def a_record() -> Record:
    record = Record(workload="news")
    for event in (
        started("e0", 0),
        settled("e0", 0, seen("pass")),
        started("e1", 7, fingerprint={**HERE, "image": "i2"}),
        settled("e1", 7, seen("pass")),
        put(Posture.ON, 8, "compiled"),
    ):
        record = record.after(event)
    return record.after(started("e2", 14, fingerprint={**HERE, "image": "i2"}))


@pytest.fixture(scope="module")
def rows(verdict: Verdict) -> list[Row]:
    judged = [executed("e1", 7, verdict), executed("e0", 0, verdict)]
    failed = executed("e2", 14, None, ExecutionStatus.FAILED)
    return rows_of([*judged, failed], a_record())


def test_rows_are_in_order_with_metrics_speed_and_machine_time(rows: list[Row]) -> None:
    assert [row.execution for row in rows] == ["e0", "e1", "e2"]
    first = rows[0]
    assert (first.arm, first.outcome, first.trained) == ("compiled", "pass", "all")
    assert [one.metric for one in first.metrics] == ["accuracy", "log_loss"]
    assert all(one.delta is not None and one.baseline is not None for one in first.metrics)
    assert first.speedup is not None
    assert first.speedup.estimate == pytest.approx(1.5, rel=0.05)
    assert first.seconds is not None
    assert first.usd is None, "a price that is not known is unknown, not zero"


def test_change_points_are_marked(rows: list[Row]) -> None:
    assert rows[0].changes == ()
    assert rows[1].changes == ("image changed",)
    assert rows[2].changes == ("posture shadow -> on", "set by anna: a wish")


def test_an_execution_without_a_verdict_has_a_row(rows: list[Row]) -> None:
    assert rows[2].status == "Failed"
    assert (rows[2].metrics, rows[2].speedup, rows[2].seconds) == ((), None, None)
    assert "-" in row_cells(rows[2])


def test_the_portfolio_has_one_line_for_a_workload(rows: list[Row]) -> None:
    line = line_of("news", rows)
    assert (line.executions, line.posture, line.registered) == (3, "on", "baseline")
    assert line.since == day(0)
    assert line.speedup == rows[1].speedup
    assert line_cells(line)[-1] == "unknown"


def alone(verdict: Verdict, seconds: float, usd: float | None) -> Verdict:
    """What the gate says of the candidate without the others."""
    assert verdict.cost is not None
    arms = tuple(
        dataclasses.replace(one, jobs=1, job=Amount(seconds, usd))
        for one in verdict.cost.arms
        if one.arm == "compiled"
    )
    return dataclasses.replace(
        verdict,
        candidates=(),
        baseline=dataclasses.replace(verdict.baseline, arm="compiled"),
        cost=dataclasses.replace(verdict.cost, arms=arms),
    )


def together(verdict: Verdict, **jobs: tuple[float, float | None]) -> Verdict:
    """The verdict, with what one job of each arm took."""
    assert verdict.cost is not None
    arms = tuple(
        dataclasses.replace(one, jobs=3, job=Amount(*jobs[one.arm])) for one in verdict.cost.arms
    )
    return dataclasses.replace(verdict, cost=dataclasses.replace(verdict.cost, arms=arms))


@pytest.mark.parametrize(
    ("usd", "said"),
    [(2.0, "4.00 hours, 8.00 USD"), (None, "4.00 hours, dollars unknown")],
)
def test_what_was_saved_is_measured_and_audits_are_subtracted(
    verdict: Verdict, usd: float | None, said: str
) -> None:
    """Jobs of 5 and 3 hours: two executions alone save 2 hours each."""
    price = 0.0 if usd is None else usd
    both = together(verdict, baseline=(5 * 3600, 5 * price), compiled=(3 * 3600, 3 * price))
    one = alone(verdict, 3 * 3600, None if usd is None else 3 * price)
    history = [executed("e0", 0, both), executed("e1", 7, one), executed("e2", 14, one)]
    found = rows_of(history, None)
    assert [row.saved_seconds for row in found] == [None, 7200, 7200]
    assert saved_so_far(found).startswith(f"Saved so far: {said} (measured; ")
    audited = [*found, dataclasses.replace(found[0], posture="on")]
    assert saved_so_far(audited).endswith("is subtracted: 1; not measured: 1)")
    assert saved_so_far(found[:1]) == ""
    assert saved_so_far(rows_of(history[1:], None)) == "Saved so far: not measured"
    record = Record(workload="news").after(put(Posture.ON, 0, "compiled")).after(started("e3", 21))
    row = rows_of([*history, executed("e3", 21, both)], record)[-1]
    assert row.saved_seconds == -(3 * 5 + 2 * 3) * 3600


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("news", "--all"), "ID does not go with --all"),
        (("news",), "there is no execution 'news'"),
        (("--all", "--output", "x.csv"), "--output does not go with --all"),
        (("--older-than", "3d"), "--older-than needs --prune"),
        (("--prune", "--older-than", "3"), "'3' is not an age; give hours or days"),
        (("--prune",), "--prune needs --older-than"),
    ],
)
def test_what_cannot_be_told_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    result = CliRunner().invoke(main, ["executions", *arguments, "--home", str(tmp_path)])
    assert result.exit_code == 2
    assert told in result.output


def test_an_empty_home_has_an_empty_portfolio(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["executions", "--all", "--home", str(tmp_path)])
    assert result.exit_code == 0
    assert "Nothing has been executed" in result.output
