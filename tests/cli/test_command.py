"""What the command line takes, refuses and completes, and what programs get instead of people."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from compilegate.cli import main
from compilegate.local import LocalExecutor, list_executions
from tests.command import COMMAND, ENVIRONMENT, PROJECT, compilegate, run
from tools.rooms import commands

pytestmark = pytest.mark.slow

VALID = PROJECT / "tests" / "pipelines" / "topics.toml"
NEWS = (PROJECT / "workloads" / "news-topics.toml").read_text(encoding="utf-8")
REGISTER = {
    "Name": "Register",
    "Type": "RegisterModel",
    "Arguments": {
        "ModelPackageGroupName": "news",
        "ModelPackageDescription": "Sorts the news",
        "ModelApprovalStatus": "Approved",
        "CustomerMetadataProperties": {"arm": "compiled", "seed": "7"},
    },
}


def definition(*steps: dict[str, Any]) -> str:
    return json.dumps({"Version": "2020-12-01", "Steps": steps})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of one execution, which registered a model."""
    executor = LocalExecutor(home=tmp_path / "home", definition=definition(REGISTER))
    executor.follow(executor.start("news", {}))
    return tmp_path / "home"


def invoke(*arguments: str | Path, stdin: str = "") -> Result:
    """Run the command in this process: a process of its own takes a second to start."""
    return CliRunner().invoke(main, [*map(str, arguments)], input=stdin, prog_name="compilegate")


def test_every_command_has_help_and_the_first_names_all_and_the_exit_codes() -> None:
    for words, _ in commands():
        done = invoke(*words, "--help")
        assert done.exit_code == 0, words
        assert done.stdout.startswith(" ".join(["Usage: compilegate", *words]))
    first = invoke("--help").stdout
    for word in ("validate", "pipeline", "run", "executions", "models", "Exit status:"):
        assert word in first


def test_help_imports_nothing_heavy() -> None:
    """What keeps it quick: benchmarks/startup.py measures it."""
    program = (
        "import sys; sys.argv = ['compilegate', '--help'];"
        "from compilegate.cli import main;"
        "main(standalone_mode=False);"
        "heavy = {'numpy', 'torch', 'sagemaker', 'boto3', 'pydantic', 'jinja2', 'scipy'};"
        "sys.exit(sorted(heavy & sys.modules.keys()) and 9 or 0)"
    )
    assert run(sys.executable, "-c", program).returncode == 0


def test_the_options_of_the_root_may_stand_behind_the_command(tmp_path: Path) -> None:
    before = invoke("--home", tmp_path, "models").stdout
    assert before == invoke("models", f"--home={tmp_path}").stdout
    assert "No model is registered" in before
    assert str(tmp_path) in before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run"], "NAME is missing"),
        (["run", "x.json"], "compilegate pipeline run x.json"),
        (["run", "news-topic"], "did you mean 'news-topics'?"),
        (["run", "news-topics", "--aws"], "--aws: `run` works on this machine"),
        (["pipeline", "run", "-"], "error: "),
        (["pipeline", "run", "-", "-p", "Approval"], "--parameter is 'Approval'"),
        (["models", "approve", "news-topics/7"], "no model package news-topics/7"),
        (["doctor", "--output", "d.json"], "--output needs the NAME of a workload"),
        (["doctor", "--image", "*=here"], "--image needs the NAME of a workload"),
        (["doctor", "news-topics", "--try"], "--try is for this machine"),
        (["doctor", "no-such-workload"], "no-such-workload"),
        (["executions", "--output", "x.zip"], "--output needs the ID of one execution"),
        *((["executions", name], f"no execution {name!r}") for name in ("none", "../x", "*", "")),
    ],
)
def test_what_cannot_be_done_is_refused_with_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], named: str
) -> None:
    monkeypatch.chdir(PROJECT)
    done = invoke(*arguments, "--home", tmp_path / "home", stdin="not json")
    assert done.exit_code == 2
    assert named in done.stderr
    assert not list(tmp_path.rglob("*.zip"))


def test_an_arm_that_cannot_run_here_is_refused_by_name_with_how_to_run_the_rest(
    tmp_path: Path,
) -> None:
    path = tmp_path / "news-topics.toml"
    path.write_text(
        NEWS.replace('"eager"\nbatch_size = 256', '"training-compiler"\nbatch_size = 256')
    )
    done = compilegate("run", path, "--home", tmp_path / "home")
    assert done.returncode == 2
    refused, rest = done.stderr.splitlines()
    assert refused.startswith(f"error: {path}: arms.larger-batch.compiler: ")
    assert rest == "error: to run the others here: --arms baseline,compiler-only"
    assert not (tmp_path / "home").exists()


def test_declared_files_that_are_absent_are_named(tmp_path: Path) -> None:
    path = tmp_path / "topics.toml"
    path.write_text(VALID.read_text())
    done = compilegate("run", path, "--home", tmp_path / "home")
    assert done.returncode == 2
    assert f": data.train: {tmp_path}/train.csv is not a file" in done.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.long
def test_compile_prints_a_definition_or_writes_it(tmp_path: Path) -> None:
    printed = compilegate("pipeline", "compile", "news-topics")
    assert printed.returncode == 0
    assert json.loads(printed.stdout)["Version"] == "2020-12-01"
    path = tmp_path / "definition.json"
    assert compilegate("pipeline", "compile", "news-topics", "--output", path).returncode == 0
    assert path.read_text() == printed.stdout
    below = path / "below-a-file.json"
    refused = compilegate("pipeline", "compile", "news-topics", "--output", below)
    assert refused.returncode == 2
    assert f"--output: {below} cannot be written" in refused.stderr


def test_compile_says_that_no_candidate_can_pass_with_one_seed(tmp_path: Path) -> None:
    path = tmp_path / "news-topics.toml"
    path.write_text(re.sub(r"(?m)^seeds = .*$", "seeds = [1]", NEWS))
    done = compilegate("pipeline", "compile", path, "--output", tmp_path / "definition.json")
    assert done.returncode == 0
    assert "note: gate.seeds: one seed can never pass" in done.stderr


def test_what_was_executed_and_registered_can_be_read_by_people_and_programs(home: Path) -> None:
    (listed,) = json.loads(invoke("executions", "--json", "--home", home).stdout)
    assert (listed["pipeline"], listed["status"]) == ("news", "Succeeded")
    beginning = listed["execution"][:4]
    shown = json.loads(invoke("executions", beginning, "--json", "--home", home).stdout)
    assert shown["execution"] == listed["execution"]
    (step,) = shown["steps"]
    assert (step["step"], step["status"], step["cached"]) == ("Register", "Succeeded", False)
    (package,) = json.loads(invoke("models", "--home", home, "list", "--json").stdout)
    assert (package["ModelPackageGroupName"], package["ModelApprovalStatus"]) == (
        "news",
        "Approved",
    )
    model = json.loads(invoke("models", "--home", home, "show", "news/1", "--json").stdout)
    assert model["ModelPackageDescription"] == "Sorts the news"
    rows = invoke("models", "--home", home, "show", "news/1").stdout.splitlines()
    assert [row.split(maxsplit=1) for row in rows[:5]] == [
        ["model", "news/1"],
        ["approval", "Approved"],
        ["what", "Sorts the news"],
        ["arm", "compiled"],
        ["seed", "7"],
    ]


def test_a_beginning_of_several_ids_is_refused_with_all_of_them(home: Path) -> None:
    for name in ("abc1", "abc2"):
        (home / "executions" / name).mkdir()
        (home / "executions" / name / "execution.json").write_text("{}")
    refused = invoke("executions", "abc", "--home", home)
    assert refused.exit_code == 2
    assert "abc1, abc2" in refused.stderr


def test_what_an_execution_is_written_to_goes_by_the_suffix(home: Path) -> None:
    (execution,) = list_executions(home)
    for subject, name, status in (
        (execution.execution_id, "x.zip", 0),
        (execution.execution_id, "x.csv", 2),
        ("news", "x.zip", 2),
    ):
        words = ("executions", subject, "--home", home, "--output", home / name)
        assert compilegate(*words).returncode == status
        assert (home / "x.zip").is_file()


def test_an_object_in_a_message_is_shown_as_the_file_here(tmp_path: Path) -> None:
    (tmp_path / "s3" / "bucket").mkdir(parents=True)
    (tmp_path / "s3" / "bucket" / "why.json").write_text("{}")
    message = "the reasons are in s3://bucket/why.json, not in s3://bucket/other.json"
    fail = {"Name": "Fail", "Type": "Fail", "Arguments": {"ErrorMessage": message}}
    done = compilegate("pipeline", "run", "-", "--home", tmp_path, stdin=definition(fail))
    assert done.returncode == 9
    assert f"{tmp_path}/s3/bucket/why.json, not in s3://bucket/other.json" in done.stderr


def completions(line: list[str], incomplete: str) -> list[str]:
    """What the Tab key offers after these words."""
    completion = ShellComplete(main, {}, "compilegate", "_COMPILEGATE_COMPLETE")
    return [item.value for item in completion.get_completions(line, incomplete)]


def test_the_tab_key_completes_commands_workloads_ids_and_models(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    (execution,) = list_executions(home)
    identity, at = execution.execution_id, ["--home", str(home)]
    assert completions([], "mo") == ["models"]
    assert "--version" in completions([], "--")
    assert "news-topics" in completions(["run"], "new")
    assert completions(["validate", "--project", str(home)], "new") == ["new"]  # a file, then
    assert completions(["executions", *at], identity[:2]) == [identity]
    assert completions(["run", *at, "--resume"], identity[:2]) == [identity]
    assert completions(["models", *at, "show"], "n") == ["news/1"]


def test_bash_completes_a_workload(tmp_path: Path) -> None:
    (tmp_path / "compilegate").write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    (tmp_path / "compilegate").chmod(0o755)
    program = (
        'eval "$(_COMPILEGATE_COMPLETE=bash_source compilegate)" '
        "&& COMP_WORDS=(compilegate run news-t) COMP_CWORD=2 "
        '&& _compilegate_completion compilegate && echo "${COMPREPLY[@]}"'
    )
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = run("bash", "-c", program, env={**ENVIRONMENT, "PATH": path})
    assert done.stdout.split() == ["news-topics"], done.stderr
