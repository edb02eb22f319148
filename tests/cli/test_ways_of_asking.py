"""IDs by their beginning, what the Tab key offers, and what programs get instead of people."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from compilegate.cli import main
from compilegate.local import LocalExecutor, list_executions
from tests.cli.terminal.screen import COMMAND, PROJECT

REGISTERS = {
    "Version": "2020-12-01",
    "Steps": [
        {
            "Name": "Register",
            "Type": "RegisterModel",
            "Arguments": {
                "ModelPackageGroupName": "news",
                "ModelPackageDescription": "Sorts the news",
                "CustomerMetadataProperties": {"arm": "compiled", "seed": "7"},
            },
        }
    ],
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of one execution, which registered a model."""
    executor = LocalExecutor(home=tmp_path / "home", definition=json.dumps(REGISTERS))
    executor.follow(executor.start("news", {}))
    return tmp_path / "home"


def asked(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], prog_name="compilegate")


def offered(line: list[str], incomplete: str) -> list[str]:
    """What the Tab key offers after these words."""
    completion = ShellComplete(main, {}, "compilegate", "_COMPILEGATE_COMPLETE")
    return [item.value for item in completion.get_completions(line, incomplete)]


@pytest.mark.slow
def test_an_execution_is_named_by_the_beginning_of_its_id(home: Path) -> None:
    (execution,) = list_executions(home)
    shown = asked("executions", execution.execution_id[:4], "--json", "--home", home)
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["execution"] == execution.execution_id


@pytest.mark.slow
def test_a_beginning_of_several_ids_is_refused_with_all_of_them(home: Path) -> None:
    for name in ("abc1", "abc2"):
        (home / "executions" / name).mkdir()
        (home / "executions" / name / "execution.json").write_text("{}")
    refused = asked("executions", "abc", "--home", home)
    assert refused.exit_code == 2
    assert refused.stderr == "error: several executions begin with 'abc': abc1, abc2\n"


@pytest.mark.slow
@pytest.mark.parametrize("beginning", ["none", "../executions", "*", ""])
def test_what_begins_no_id_is_refused(home: Path, beginning: str) -> None:
    refused = asked("executions", beginning, "--home", home)
    assert refused.exit_code == 2
    assert refused.stderr == f"error: there is no execution {beginning!r} in {home}\n"


def test_commands_are_offered_without_importing_them() -> None:
    assert offered([], "mo") == ["models"]
    assert "--version" in offered([], "--")


def test_workloads_are_offered_and_files_where_none_begins_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    assert "news-topics" in offered(["run"], "new")
    assert offered(["validate", "--project", str(tmp_path)], "new") == ["new"]


@pytest.mark.slow
def test_ids_and_models_are_offered_from_the_home_that_is_named(home: Path) -> None:
    (execution,) = list_executions(home)
    begun = execution.execution_id[:2]
    assert offered(["executions", "--home", str(home)], begun) == [execution.execution_id]
    asks = ["run", "--home", str(home), "--resume"]
    assert offered(asks, begun) == [execution.execution_id]
    assert offered(["models", "--home", str(home), "show"], "n") == ["news/1"]


@pytest.mark.slow
def test_bash_completes_a_workload(tmp_path: Path) -> None:
    (tmp_path / "compilegate").write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    (tmp_path / "compilegate").chmod(0o755)
    program = (
        'eval "$(_COMPILEGATE_COMPLETE=bash_source compilegate)" '
        "&& COMP_WORDS=(compilegate run news-t) COMP_CWORD=2 "
        '&& _compilegate_completion compilegate && echo "${COMPREPLY[@]}"'
    )
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", program],
        cwd=PROJECT,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["news-topics"], done.stderr


@pytest.mark.slow
def test_a_model_is_shown_to_people_or_to_programs(home: Path) -> None:
    shown = asked("models", "--home", home, "show", "news/1").stdout
    assert shown.splitlines()[:5] == [
        "model       news/1",
        "approval    PendingManualApproval",
        "what        Sorts the news",
        "arm         compiled",
        "seed        7",
    ]
    told = json.loads(asked("models", "--home", home, "show", "news/1", "--json").stdout)
    assert told["ModelPackageDescription"] == "Sorts the news"


def test_a_valid_workload_is_json_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    done = asked("validate", "news-topics", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["valid"], told["problems"]) == (0, True, [])
    assert told["file"] == "workloads/news-topics.toml"
    assert "training jobs" in told["summary"]


def test_a_wrong_workload_is_json_with_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('name = 3\nseeds = "one"\n')
    done = asked("validate", path, "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["valid"], done.stderr) == (2, False, "")
    assert any("name is 3" in problem for problem in told["problems"])
    assert any("seeds is 'one'" in problem for problem in told["problems"])
