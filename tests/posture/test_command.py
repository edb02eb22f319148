"""`compilegate posture`, as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compilegate.cli import main
from compilegate.posture.records import DynamoRecords
from tests.account.command import environment
from tests.account.deployed import create_stack
from tests.aws_server.client import AwsServer
from tests.posture.table import TABLE, table_in

TOPICS = Path(__file__).parents[1] / "pipelines" / "topics.toml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "workloads").mkdir()
    text = TOPICS.read_text(encoding="utf-8")
    (tmp_path / "workloads" / "topics.toml").write_text(text + "\n[posture]\npasses = 2\n")
    plain = text.replace('name = "topics"', 'name = "plain"')
    (tmp_path / "workloads" / "plain.toml").write_text(plain)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["posture", *arguments], env=env)


@pytest.mark.usefixtures("folder")
def test_a_workload_is_shown_with_what_happens_next() -> None:
    told = asked("topics").output
    assert "topics: shadow" in told
    assert "next: shadow: all arms train" in told


@pytest.mark.usefixtures("folder")
def test_a_person_resets_and_sets_with_a_reason_that_is_kept() -> None:
    assert "shadow -> benchmark, reset by" in asked("topics", "reset", "--reason", "new").output
    assert "benchmark -> off" in asked("topics", "off", "--reason", "a freeze").output
    document = json.loads(asked("topics", "--json").output)
    assert document["state"]["posture"] == "off"
    assert document["next"]["arms"] == "baseline"
    assert [one["after"] for one in document["decisions"]] == ["benchmark", "off"]
    assert "a freeze" in asked("topics").output


@pytest.mark.usefixtures("folder")
def test_turning_on_by_hand_needs_a_candidate_and_begins_with_an_audit() -> None:
    refused = asked("topics", "on", "--reason", "sure")
    assert refused.exit_code == 2
    assert "--arm is missing, expected one of the candidates compiled" in refused.output
    assert asked("topics", "on", "--arm", "compiled", "--reason", "x").exit_code == 0
    assert "next: on: an audit of all arms" in asked("topics").output


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("plain",), "plain.toml has no table [posture]"),
        (("absent",), "no such file"),
        (("topics", "up", "--reason", "x"), "'up' is not one of"),
        (("topics", "reset"), "--reason is missing"),
        (
            ("topics", "off", "--arm", "compiled", "--reason", "x"),
            "--arm goes with the state `on`, not with off",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(arguments: tuple[str, ...], told: str) -> None:
    result = asked(*arguments)
    assert result.exit_code == 2
    assert told in result.output


def test_a_damaged_record_is_said(folder: Path) -> None:
    record = folder / ".compilegate" / "posture" / "topics.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    assert "the record was damaged" in asked("topics").output


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_deployed_posture_is_shown_and_set_in_its_table(aws: AwsServer) -> None:
    def deployed(*arguments: str) -> Result:
        return asked(*arguments, "--aws", env=environment(aws))

    absent = deployed("topics")
    assert absent.exit_code == 2
    assert "there is no stack compilegate-workload-topics" in absent.output
    create_stack(aws, "compilegate-workload-topics", {"PostureTableName": TABLE})
    denied = deployed("topics")
    assert denied.exit_code == 2
    assert "read or write the posture of topics" in denied.output
    records: DynamoRecords = table_in(aws)
    assert "shadow -> benchmark, reset by" in deployed("topics", "reset", "--reason", "new").output
    assert "benchmark -> off" in deployed("topics", "off", "--reason", "a freeze").output
    assert "topics: off" in deployed("topics").output
    assert "topics: shadow" in asked("topics").output, "this machine's is another one"
    text, _ = records.read("topics")
    assert text is not None
    assert json.loads(text)["decisions"][1]["event"]["who"] != ""
