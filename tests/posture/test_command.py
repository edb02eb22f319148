"""`compilegate posture`, as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compilegate.cli import main

TOPICS = Path(__file__).parents[1] / "pipelines" / "topics.toml"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workloads").mkdir()
    text = TOPICS.read_text(encoding="utf-8")
    (tmp_path / "workloads" / "topics.toml").write_text(text + "\n[posture]\npasses = 2\n")
    plain = text.replace('name = "topics"', 'name = "plain"')
    (tmp_path / "workloads" / "plain.toml").write_text(plain)
    monkeypatch.chdir(tmp_path)


def posture(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["posture", *arguments])


def test_a_person_sees_what_is_next_and_sets_it_with_a_reason_that_is_kept() -> None:
    assert "next: shadow: all arms train" in posture("topics").output
    for arguments, moved, following in (
        (("reset", "--reason", "new"), "shadow -> benchmark", "all"),
        (("on", "--arm", "compiled", "--reason", "x"), "benchmark -> on", "all"),
        (("off", "--reason", "a freeze"), "on -> off", "baseline"),
    ):
        assert moved in posture("topics", *arguments).output
        document = json.loads(posture("topics", "--json").output)
        assert document["next"]["arms"] == following
    assert [one["after"] for one in document["decisions"]] == ["benchmark", "on", "off"]
    assert "a freeze" in posture("topics").output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("plain",), "[posture]"),
        (("absent",), "no such file"),
        (("topics", "up", "--reason", "x"), "'up'"),
        (("topics", "reset"), "--reason"),
        (("topics", "on", "--reason", "x"), "--arm"),
        (("topics", "off", "--arm", "compiled", "--reason", "x"), "--arm"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[str, ...], named: str) -> None:
    result = posture(*arguments)
    assert (result.exit_code, named in result.output) == (2, True)
