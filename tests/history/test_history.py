"""`compilegate executions`: rows, what changed between them, and what was saved."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compilegate.cli import main
from compilegate.gate.judge import judge
from compilegate.gate.verdict import Amount, Verdict
from compilegate.history.rows import Past, row_cells, rows_of, saved_so_far, summary, summary_cells
from compilegate.posture.state import Posture
from tests.gate.conftest import build_execution
from tests.posture.scenes import HERE, after, day, put, seen, settled, started


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    execution = build_execution(candidates=("compiled",))
    return judge(execution.experiment, execution.records)


def weekly(*verdicts: Verdict | None) -> list[Past]:
    """An execution a week: e0, e1 and so on."""
    times = [datetime.datetime.fromisoformat(day(7 * n)).timestamp() for n in range(len(verdicts))]
    return [
        Past(execution=f"e{number}", started=when, status="Succeeded", verdict=verdict)
        for number, (when, verdict) in enumerate(zip(times, verdicts, strict=True))
    ]


def test_rows_are_in_order_with_what_was_measured_and_what_changed(verdict: Verdict) -> None:
    changed = {**HERE, "image": "i2"}
    record = after(
        started("e0", 0),
        settled("e0", 0, seen("pass")),
        started("e1", 7, fingerprint=changed),
        settled("e1", 7, seen("pass")),
        put(Posture.ON, 8, "compiled"),
        started("e2", 14, fingerprint=changed),
    )
    rows = rows_of(reversed(weekly(verdict, verdict, None)), record)
    assert [(row.execution, row.changes) for row in rows] == [
        ("e0", ()),
        ("e1", ("image changed",)),
        ("e2", ("posture shadow -> on", "set by anna: a wish")),
    ]
    first, second, last = rows
    assert (first.arm, first.outcome, first.trained) == ("compiled", "pass", "all")
    assert [one.metric for one in first.metrics if one.delta] == ["accuracy", "log_loss"]
    assert first.speedup is not None
    assert first.speedup.estimate == pytest.approx(1.5, rel=0.05)
    assert (last.metrics, last.speedup, last.cost) == ((), None, None), "without a verdict"
    assert row_cells(last)[-3:-1] == ("-", "unknown")
    newest = summary(rows)
    assert (newest.posture, newest.registered) == ("on", "baseline")
    assert first.cost is not None
    assert newest.cost == Amount(2 * first.cost.seconds, None), "an unknown price is not zero"
    assert (newest.speedup, summary_cells("news", rows)[1]) == (second.speedup, "3")


def test_changed_rules_of_the_gate_are_marked_where_they_changed(verdict: Verdict) -> None:
    """Also over an execution without a verdict, and over one of an earlier release."""
    metrics: dict[str, Any] = verdict.rules["metrics"]
    stricter = {**metrics, "accuracy": {**metrics["accuracy"], "margin": 0.001}}
    rules = {**verdict.rules, "confidence": 0.9, "metrics": stricter}
    later = dataclasses.replace(verdict, rules=rules)
    earlier = dataclasses.replace(verdict, rules={})
    found = rows_of(weekly(verdict, None, earlier, later, later), None)
    before = metrics["accuracy"]["margin"]
    expected = f"metrics.accuracy.margin {before} -> 0.001, confidence 0.95 -> 0.9"
    changes = [row.changes for row in found]
    assert changes == [(), (), (), (f"gate rules changed: {expected}",), ()]


def took(verdict: Verdict, jobs: int, **hours: float) -> Verdict:
    """The verdict, with what each job of these arms took; a dollar an hour."""
    assert verdict.cost is not None
    arms = tuple(
        dataclasses.replace(one, jobs=jobs, job=Amount(3600 * hours[one.arm], hours[one.arm]))
        for one in verdict.cost.arms
        if one.arm in hours
    )
    return dataclasses.replace(verdict, cost=dataclasses.replace(verdict.cost, arms=arms))


def test_what_was_saved_is_measured_and_audits_are_subtracted(verdict: Verdict) -> None:
    """Jobs of 5 and 3 hours: two executions alone save 2 hours each, an audit costs its 3 jobs of
    each arm less the candidate's one."""
    both = took(verdict, 3, baseline=5, compiled=3)
    baseline = dataclasses.replace(verdict.baseline, arm="compiled")
    alone = dataclasses.replace(took(verdict, 1, compiled=3), candidates=(), baseline=baseline)
    record = after(put(Posture.ON, 20, "compiled"), started("e3", 21))
    rows = rows_of(weekly(both, alone, alone, both), record)
    saved = [None, Amount(7200, 2), Amount(7200, 2), Amount(-(3 * 5 + 2 * 3) * 3600, -21)]
    assert [row.saved for row in rows] == saved
    assert "4.00 hours, 4.00 USD" in saved_so_far(rows[:3])
    assert "-17.00 hours, -17.00 USD" in saved_so_far(rows)
    assert saved_so_far(rows[:1]) == ""
    assert saved_so_far(rows_of(weekly(alone, alone), None)).endswith("not measured")
    unknown = dataclasses.replace(rows[0], posture="on")
    assert saved_so_far([*rows[:3], unknown]).endswith("not measured: 1)")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("news", "--all"), "--all"),
        (("--older-than", "3d"), "--prune"),
        (("--prune", "--older-than", "3"), "'3'"),
        (("--prune",), "--older-than"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], named: str
) -> None:
    result = CliRunner().invoke(main, ["executions", *arguments, "--home", str(tmp_path)])
    assert (result.exit_code, named in result.output) == (2, True)
    empty = CliRunner().invoke(main, ["executions", "--all", "--home", str(tmp_path)])
    assert empty.exit_code == 0
