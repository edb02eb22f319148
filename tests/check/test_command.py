"""The command: its options, its output, and its exit status."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from compilegate.cli import main
from tests.check.writing import SLOW_STEP, written

PROJECT = Path(__file__).parents[2]
GRAVE = (PROJECT / "docs" / "rules" / "missing-mark-step.md").read_text(encoding="utf-8")
STALLS = re.search(r"## Bad\n\n```python\n(.*?)```", GRAVE, re.DOTALL)


def check(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["check", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("fail_on", "status"), [("error", 0), ("warning", 7), ("note", 7), ("never", 0)]
)
def test_the_exit_status_tells_a_warning_where_it_is_asked_for(
    fail_on: str, status: int, tmp_path: Path
) -> None:
    written(tmp_path, train=SLOW_STEP)
    assert check(tmp_path, "--fail-on", fail_on)[0] == status


@pytest.mark.parametrize(("fail_on", "status"), [("error", 6), ("note", 6), ("never", 0)])
def test_the_exit_status_tells_an_error(fail_on: str, status: int, tmp_path: Path) -> None:
    assert STALLS is not None
    written(tmp_path, train=STALLS[1])
    assert check(tmp_path, "--fail-on", fail_on)[0] == status


def test_notes_alone_have_a_status_of_their_own(tmp_path: Path) -> None:
    script = "for x in data:\n    loss = model(x)\n    loss.backward()\n"
    written(tmp_path, train=script)
    assert check(tmp_path, "--fail-on", "note", "--compiler", "torch-compile")[0] == 8


def test_a_compiler_is_asked_about_alone(tmp_path: Path) -> None:
    assert STALLS is not None
    written(tmp_path, train=STALLS[1])
    assert "missing-mark-step" in check(tmp_path, "--compiler", "xla")[1]
    assert "missing-mark-step" not in check(tmp_path, "--compiler", "torch-compile")[1]


def test_what_cannot_be_read_is_told_on_standard_error(tmp_path: Path) -> None:
    written(tmp_path, train=SLOW_STEP, broken="def f(:\n")
    status, said, told = check(tmp_path)
    assert status == 0
    assert told == f"{tmp_path}/broken.py: not checked: line 1: invalid syntax\n"
    assert "item-in-step" in said


def test_where_nothing_can_be_read_the_input_is_refused(tmp_path: Path) -> None:
    status, said, told = check(tmp_path / "nowhere.py")
    assert (status, said) == (2, "")
    assert told.splitlines() == [
        f"{tmp_path}/nowhere.py: there is no such file or folder",
        "error: nothing was checked: no PATH holds a Python script that can be read",
    ]


def test_json_is_alone_on_standard_output(tmp_path: Path) -> None:
    written(tmp_path, train=SLOW_STEP, broken="def f(:\n")
    told = json.loads(check(tmp_path, "--format", "json")[1])
    assert [each["rule"] for each in told["findings"]]


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "found.sarif"
    written(tmp_path, train=SLOW_STEP)
    status, said, _ = check(tmp_path, "--format", "sarif", "--output", target)
    assert (status, said.count("\n")) == (0, 1)
    assert json.loads(target.read_text())["version"] == "2.1.0"


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    written(tmp_path, train=SLOW_STEP)
    status, _, told = check(tmp_path, "--output", tmp_path / "no" / "such" / "folder")
    assert status == 2
    assert told.startswith("error: --output: ")


def test_the_hook_of_pre_commit_runs_a_command_that_exists() -> None:
    (hook,) = yaml.safe_load((PROJECT / ".pre-commit-hooks.yaml").read_text())
    program, command = hook["entry"].split()
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    assert program in declared["project"]["scripts"]
    assert command in main.list_commands(click.Context(main))
    assert f"id: {hook['id']}" in (PROJECT / "docs" / "check.md").read_text()
