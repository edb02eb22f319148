"""`compilegate executions` and `posture` with --aws: the bucket's verdicts, the posture's table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compilegate.cli import main
from compilegate.gate.judge import judge
from compilegate.history.rows import COLUMNS, PORTFOLIO
from compilegate.posture.contract import DAY_VARIABLE
from compilegate.posture.records import decide
from tests.account.deployed import Deployed, deploy
from tests.account.scripted import frame
from tests.aws_server.client import AwsServer
from tests.gate.conftest import build_execution
from tests.posture.scenes import HERE, day, seen, settled, started, table_in

pytestmark = pytest.mark.slow

TOPICS = Path(__file__).parents[1] / "pipelines" / "topics.toml"
VERDICTS = "compilegate/workloads/topics/verdicts"
FORGOTTEN, FIRST, FAILED = "ofanother", "execution001", "execution002"


@pytest.fixture
def account(aws: AwsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployed:
    """A deployed workload, and one that is not deployed."""
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    Path("workloads").mkdir()
    for name in ("topics", "later"):
        Path("workloads", f"{name}.toml").write_text(TOPICS.read_text() + "\n[posture]\n")
    monkeypatch.setenv(DAY_VARIABLE, day(6))
    return deploy(aws)


def deployed(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--aws"])


def test_rows_are_the_buckets_verdicts_the_tables_decisions_and_executions(
    account: Deployed,
) -> None:
    """One whose pipeline was deleted since, one with a verdict, one that failed before its gate."""
    table = table_in(account.server)
    absent = deployed("executions", "topics")
    assert (absent.exit_code, "never executed" in absent.output) == (2, True)
    execution = build_execution(candidates=("compiled",))
    verdict = judge(execution.experiment, execution.records)
    for status in ("Succeeded", "Failed"):
        account.script(frame(status))
        account.start(ClientRequestToken=status * 8)
    for name in (FORGOTTEN, FIRST):
        account.put_object(f"{VERDICTS}/{name}/verdict.json", verdict.to_json())
        account.put_object(f"{VERDICTS}/{name}/report.md", "no verdict")
    account.put_object(f"{VERDICTS}/{FAILED}/verdict.json", "{}")
    decide(table, "topics", started(FORGOTTEN, 0))
    decide(table, "topics", settled(FORGOTTEN, 0, seen("pass")))
    assert "shadow -> off" in deployed("posture", "topics", "off", "--reason", "a freeze").output
    assert "topics: off" in deployed("posture", "topics").output
    decide(table, "topics", started(FIRST, 7, fingerprint={**HERE, "image": "i2"}))
    decide(table, "topics", settled(FIRST, 7, seen("pass")))

    rows = json.loads(deployed("executions", "topics", "--json").output)
    found = {row["execution"]: row for row in rows}
    assert {name: (row["status"], len(row["metrics"])) for name, row in found.items()} == {
        FORGOTTEN: ("unknown", 2),
        FIRST: ("Succeeded", 2),
        FAILED: ("Failed", 0),
    }
    first = found[FIRST]
    assert (first["posture"], first["arm"], first["registered"]) == ("off", "compiled", "baseline")

    lines = deployed("executions", "topics").output.splitlines()
    assert (lines[0].split()[0], len(lines)) == (COLUMNS[0], 4)
    head, *lines = deployed("executions", "--all").output.splitlines()
    assert head.split()[0] == PORTFOLIO[0]
    assert [line.split()[:2] for line in lines] == [["topics", "3"]]
    assert "compilegate-workload-later" in str(deployed("executions", "later").output)
