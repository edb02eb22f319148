"""`compilegate executions --aws`: the bucket's verdicts and the posture's table, told as ever."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compilegate.cli import main
from compilegate.gate.judge import judge
from compilegate.gate.verdict import Verdict
from compilegate.history.rows import COLUMNS, PORTFOLIO, Past, rows_of
from compilegate.posture.records import DynamoRecords
from compilegate.posture.records import current, decide
from compilegate.posture.state import Posture
from tests.account.deployed import Deployed, deploy
from tests.account.scripted import frame
from tests.aws_server.client import AwsServer
from tests.gate.conftest import build_execution
from tests.posture.scenes import HERE, day, put, seen, settled, started
from tests.posture.table import TABLE, table_in

pytestmark = pytest.mark.slow

VERDICTS = "compilegate/workloads/topics/verdicts"
FORGOTTEN, FIRST, FAILED = "ofanother", "execution001", "execution002"


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    execution = build_execution(candidates=("compiled",))
    return judge(execution.experiment, execution.records)


@pytest.fixture
def account(aws: AwsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployed:
    """A deployed workload with a posture, and a folder from which people ask."""
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    Path("workloads").mkdir()
    for name in ("topics", "later"):
        Path("workloads", f"{name}.toml").write_text("")
    return deploy(aws, more={"PostureTableName": TABLE})


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["executions", *arguments, "--aws"])


def executed(account: Deployed, verdict: Verdict) -> DynamoRecords:
    """One whose pipeline was deleted since, one with a verdict, one that failed before its gate."""
    records = table_in(account.server)
    for status in ("Succeeded", "Failed"):
        account.script(frame(status))
        account.start(ClientRequestToken=status * 8)
    for execution in (FORGOTTEN, FIRST):
        account.put_object(f"{VERDICTS}/{execution}/verdict.json", verdict.to_json())
        account.put_object(f"{VERDICTS}/{execution}/report.md", "no verdict")
    for event in (
        started(FORGOTTEN, 0),
        settled(FORGOTTEN, 0, seen("pass")),
        put(Posture.OFF, 6),
        started(FIRST, 7, fingerprint={**HERE, "image": "i2"}),
        settled(FIRST, 7, seen("pass")),
    ):
        decide(records, "topics", event)
    return records


def test_it_is_told_as_executions_on_this_machine_are(account: Deployed, verdict: Verdict) -> None:
    records = executed(account, verdict)
    found = {row["execution"]: row for row in json.loads(asked("topics", "--json").output)}
    assert {name: row["status"] for name, row in found.items()} == {
        FORGOTTEN: "unknown",
        FIRST: "Succeeded",
        FAILED: "Failed",
    }
    record = current(records, "topics", when=day(9), who="test")
    here = rows_of(
        [
            Past(execution=FORGOTTEN, started=0.0, status="unknown", verdict=verdict),
            Past(execution=FIRST, started=1.0, status="Succeeded", verdict=verdict),
        ],
        record,
    )
    for row in json.loads(json.dumps([asdict(row) for row in here])):
        deployed = found[row["execution"]]
        assert {**deployed, "changes": ()} == {**row, "changes": ()}
        assert row["speedup"] is not None
    assert found[FIRST]["posture"] == "off"
    assert found[FAILED]["metrics"] == []


def test_the_table_has_a_line_for_each_execution(account: Deployed, verdict: Verdict) -> None:
    executed(account, verdict)
    lines = asked("topics").output.splitlines()
    assert lines[0].split()[0] == COLUMNS[0]
    assert len(lines) == 4


def test_the_portfolio_has_what_is_deployed(account: Deployed, verdict: Verdict) -> None:
    executed(account, verdict)
    head, *lines = asked("--all").output.splitlines()
    assert head.split()[0] == PORTFOLIO[0]
    assert [line.split()[:2] for line in lines] == [["topics", "3"]]


def test_a_verdict_of_another_kind_is_none(account: Deployed) -> None:
    table_in(account.server)
    account.put_object(f"{VERDICTS}/{FIRST}/verdict.json", "{}")
    (row,) = json.loads(asked("topics", "--json").output)
    assert (row["execution"], row["metrics"], row["outcome"]) == (FIRST, [], "")


def test_what_is_not_there_is_said(account: Deployed) -> None:
    table_in(account.server)
    nothing = asked("topics")
    assert nothing.exit_code == 2
    assert "topics was never executed in account" in nothing.output
    assert "Nothing has been executed in account" in asked("--all").output
    assert "there is no stack compilegate-workload-later" in str(asked("later").output)
