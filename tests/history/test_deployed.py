"""`compilegate executions --aws`: by the bucket's verdicts and the posture's table."""

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
from compilegate.posture.records import DynamoRecords, current, decide
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


@pytest.fixture
def account(aws: AwsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployed:
    """A deployed workload with a posture, and one that is not deployed."""
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    Path("workloads").mkdir()
    for name in ("topics", "later"):
        Path("workloads", f"{name}.toml").write_text("")
    table_in(aws)
    return deploy(aws, more={"PostureTableName": TABLE})


def executions(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["executions", *arguments, "--aws"])


def test_rows_are_those_of_this_machine(account: Deployed) -> None:
    """One whose pipeline was deleted since, one with a verdict, one that failed before its gate."""
    absent = executions("topics")
    assert (absent.exit_code, "never executed" in absent.output) == (2, True)
    execution = build_execution(candidates=("compiled",))
    verdict: Verdict = judge(execution.experiment, execution.records)
    for status in ("Succeeded", "Failed"):
        account.script(frame(status))
        account.start(ClientRequestToken=status * 8)
    for name in (FORGOTTEN, FIRST):
        account.put_object(f"{VERDICTS}/{name}/verdict.json", verdict.to_json())
        account.put_object(f"{VERDICTS}/{name}/report.md", "no verdict")
    account.put_object(f"{VERDICTS}/{FAILED}/verdict.json", "{}")
    records = DynamoRecords(account.server.client("dynamodb"), TABLE)
    for event in (
        started(FORGOTTEN, 0),
        settled(FORGOTTEN, 0, seen("pass")),
        put(Posture.OFF, 6),
        started(FIRST, 7, fingerprint={**HERE, "image": "i2"}),
        settled(FIRST, 7, seen("pass")),
    ):
        decide(records, "topics", event)

    found = {row["execution"]: row for row in json.loads(executions("topics", "--json").output)}
    statuses = {name: row["status"] for name, row in found.items()}
    assert statuses == {FORGOTTEN: "unknown", FIRST: "Succeeded", FAILED: "Failed"}
    here = rows_of(
        [
            Past(execution=FORGOTTEN, started=0.0, status="unknown", verdict=verdict),
            Past(execution=FIRST, started=1.0, status="Succeeded", verdict=verdict),
        ],
        current(records, "topics", when=day(9), who="test"),
    )
    for row in json.loads(json.dumps([asdict(row) for row in here])):
        assert {**found[row["execution"]], "changes": ()} == {**row, "changes": ()}
    assert (found[FIRST]["posture"], found[FAILED]["metrics"]) == ("off", [])

    lines = executions("topics").output.splitlines()
    assert (lines[0].split()[0], len(lines)) == (COLUMNS[0], 4)
    head, *lines = executions("--all").output.splitlines()
    assert head.split()[0] == PORTFOLIO[0]
    assert [line.split()[:2] for line in lines] == [["topics", "3"]]
    assert "compilegate-workload-later" in str(executions("later").output)
