"""The command as a process: what it prints, and its exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from compilegate.cli import main
from compilegate.cli.main import GONE, MOVED
from tools.rooms import commands

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')"]
VALID = PROJECT / "tests" / "pipelines" / "topics.toml"


def compilegate(
    *arguments: str | Path, cwd: Path = PROJECT, given: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )


def test_help_names_every_command_and_the_exit_codes() -> None:
    done = compilegate("--help")
    assert done.returncode == 0
    for word in ("validate", "pipeline", "compile", "run", "executions", "models", "Exit status:"):
        assert word in done.stdout


def test_every_command_has_help() -> None:
    """In this process: each would take a second to start."""
    for words, _ in commands():
        done = CliRunner().invoke(main, [*words, "--help"], prog_name="compilegate")
        assert done.exit_code == 0, words
        assert done.stdout.startswith(" ".join(["Usage: compilegate", *words]))


@pytest.mark.parametrize("old", [*MOVED, *GONE])
def test_an_old_name_is_answered_with_the_new_one(old: str) -> None:
    words = old.split() if not old.startswith("--") else ["models", old]
    refused = CliRunner().invoke(main, [*words, "x"], prog_name="compilegate")
    assert refused.exit_code == 2
    (sentence,) = refused.stderr.splitlines()
    assert sentence.startswith("error: ")
    assert MOVED.get(old, "removed") in sentence


def test_every_new_name_is_a_command_with_its_options() -> None:
    known = dict(commands())
    for new in MOVED.values():
        words = new.split()
        named = max((key for key in known if tuple(words[: len(key)]) == key), key=len)
        assert named or new in {"--aws", "--project FOLDER"}
        options = {each for at in ((), named) for it in known[at].params for each in it.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_the_options_of_the_root_may_stand_behind_the_command(tmp_path: Path) -> None:
    said = [
        CliRunner().invoke(main, words).stdout
        for words in (["--home", str(tmp_path), "models"], ["models", f"--home={tmp_path}"])
    ]
    assert said[0] == said[1] != ""
    assert str(tmp_path) in said[0]
    refused = CliRunner().invoke(main, ["run", "news-topics", "--aws"])
    assert refused.exit_code == 2
    assert "--aws: `run` works on this machine" in refused.stderr


def test_help_imports_nothing_heavy() -> None:
    """What keeps it quick: benchmarks/startup.py measures it."""
    program = (
        "import sys; sys.argv = ['compilegate', '--help'];"
        "from compilegate.cli import main;"
        "main(standalone_mode=False);"
        "heavy = {'numpy', 'torch', 'sagemaker', 'boto3', 'pydantic', 'jinja2', 'scipy'};"
        "sys.exit(sorted(heavy & sys.modules.keys()) and 9 or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0


def test_a_valid_workload_is_said_to_be() -> None:
    done = compilegate("validate", "news-topics")
    assert done.returncode == 0
    assert done.stdout == (
        "workloads/news-topics.toml: valid: 3 arms, 3 seeds, 9 training jobs; nothing to do\n"
    )


def test_a_wrong_workload_is_refused_with_a_sentence_and_status_2(tmp_path: Path) -> None:
    path = tmp_path / "topics.toml"
    path.write_text(VALID.read_text().replace("epochs = 2", 'epochs = "2"'))
    done = compilegate("validate", path)
    assert done.returncode == 2
    sentence, *others = done.stderr.splitlines()
    assert sentence == f"error: {path}: recipe.epochs is '2', expected a whole number"
    assert all("is not a file" in other for other in others)  # its data is looked at, too
    assert done.stdout == ""


def test_an_unknown_workload_is_refused_with_what_there_is() -> None:
    done = compilegate("run", "news-topic")
    assert done.returncode == 2
    assert "did you mean 'news-topics'?" in done.stderr


def test_an_arm_that_cannot_run_here_is_refused_by_name_with_how_to_run_the_rest(
    tmp_path: Path,
) -> None:
    text = (PROJECT / "workloads" / "news-topics.toml").read_text(encoding="utf-8")
    path = tmp_path / "news-topics.toml"
    path.write_text(
        text.replace('"eager"\nbatch_size = 256', '"training-compiler"\nbatch_size = 256')
    )
    done = compilegate("run", path, "--home", tmp_path / "home")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: {path}: arms.larger-batch.compiler: SageMaker Training Compiler runs in AWS's "
        "images on AWS's instances only; submit the workload to SageMaker, or take another "
        "compiler for local runs",
        "error: to run the others here: --arms baseline,compiler-only",
    ]
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            'instance_type = "ml.p3.2xlarge"',
            "arms.compiler-only.instance_type: AWS's image of PyTorch 2.13 has no kernels for the "
            "V100",
        ),
        (
            'image = "traning"',
            "arms.compiler-only.image: the image 'traning' is not a folder in containers/",
        ),
    ],
)
def test_validate_looks_at_what_an_arm_s_image_extends(
    tmp_path: Path, keys: str, sentence: str
) -> None:
    text = (PROJECT / "workloads" / "news-topics.toml").read_text(encoding="utf-8")
    path = tmp_path / "news-topics.toml"
    path.write_text(text.replace("[arms.compiler-only]\n", f"[arms.compiler-only]\n{keys}\n"))
    done = compilegate("validate", path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {path}: {sentence}")


@pytest.mark.long
@pytest.mark.slow
def test_compile_prints_a_definition_or_writes_it(tmp_path: Path) -> None:
    printed = compilegate("pipeline", "compile", "news-topics")
    assert printed.returncode == 0
    assert json.loads(printed.stdout)["Version"] == "2020-12-01"
    path = tmp_path / "definition.json"
    assert compilegate("pipeline", "compile", "news-topics", "--output", path).returncode == 0
    assert path.read_text() == printed.stdout
    refused = compilegate(
        "pipeline", "compile", "news-topics", "--output", path / "below-a-file.json"
    )
    assert refused.returncode == 2
    assert f"--output: {path / 'below-a-file.json'} cannot be written: Not a dir" in refused.stderr


@pytest.mark.slow
def test_compile_says_that_no_candidate_can_pass_with_one_seed(tmp_path: Path) -> None:
    text = (PROJECT / "workloads" / "news-topics.toml").read_text(encoding="utf-8")
    path = tmp_path / "news-topics.toml"
    path.write_text(re.sub(r"(?m)^seeds = .*$", "seeds = [1]", text))
    done = compilegate("pipeline", "compile", path, "--output", tmp_path / "definition.json")
    assert done.returncode == 0
    assert "note: gate.seeds: one seed can never pass" in done.stderr


def test_declared_files_that_are_absent_are_named(tmp_path: Path) -> None:
    path = tmp_path / "topics.toml"
    path.write_text(VALID.read_text())
    done = compilegate("run", path, "--home", tmp_path / "home")
    assert done.returncode == 2
    assert f": data.train: {tmp_path}/train.csv is not a file" in done.stderr
    assert not (tmp_path / "home").exists()


def test_run_needs_a_workload_and_names_what_runs_a_definition() -> None:
    nothing, definition = (CliRunner().invoke(main, ["run", *each]) for each in ([], ["x.json"]))
    assert (nothing.exit_code, definition.exit_code) == (2, 2)
    assert "NAME is missing" in nothing.stderr
    assert "compilegate pipeline run x.json" in definition.stderr


def test_a_definition_that_is_not_json_is_refused(tmp_path: Path) -> None:
    done = compilegate("pipeline", "run", "-", "--home", tmp_path, given="not json")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_parameter_without_a_value_is_refused(tmp_path: Path) -> None:
    done = compilegate("pipeline", "run", "-", "--home", tmp_path, "-p", "Approval", given="{}")
    assert done.returncode == 2
    assert "--parameter is 'Approval', expected NAME=VALUE" in done.stderr


def test_an_empty_registry_says_how_to_fill_it(tmp_path: Path) -> None:
    done = compilegate("models", "--home", tmp_path)
    assert done.returncode == 0
    assert "No model is registered" in done.stdout


def test_an_unknown_package_is_refused(tmp_path: Path) -> None:
    done = compilegate("models", "--home", tmp_path, "approve", "news-topics/7")
    assert done.returncode == 2
    assert "there is no model package news-topics/7" in done.stderr


@pytest.mark.slow
def test_what_was_executed_and_registered_can_be_read_by_programs(tmp_path: Path) -> None:
    register = {
        "Name": "Register",
        "Type": "RegisterModel",
        "Arguments": {"ModelPackageGroupName": "news", "ModelApprovalStatus": "Approved"},
    }
    given = json.dumps({"Version": "2020-12-01", "Steps": [register]})
    done = compilegate("pipeline", "run", "-", "--home", tmp_path, given=given)
    assert done.returncode == 0, done.stderr
    (listed,) = json.loads(compilegate("executions", "--json", "--home", tmp_path).stdout)
    assert (listed["pipeline"], listed["status"]) == ("definition", "Succeeded")
    shown = compilegate("executions", listed["execution"], "--json", "--home", tmp_path).stdout
    (step,) = json.loads(shown)["steps"]
    assert (step["step"], step["status"], step["cached"]) == ("Register", "Succeeded", False)
    (package,) = json.loads(compilegate("models", "--home", tmp_path, "list", "--json").stdout)
    assert (package["ModelPackageGroupName"], package["ModelApprovalStatus"]) == (
        "news",
        "Approved",
    )


@pytest.mark.slow
def test_an_object_in_a_message_is_shown_as_the_file_here(tmp_path: Path) -> None:
    (tmp_path / "s3" / "bucket").mkdir(parents=True)
    (tmp_path / "s3" / "bucket" / "why.json").write_text("{}")
    message = "the reasons are in s3://bucket/why.json, not in s3://bucket/other.json"
    fail = {"Name": "Fail", "Type": "Fail", "Arguments": {"ErrorMessage": message}}
    given = json.dumps({"Version": "2020-12-01", "Steps": [fail]})
    done = compilegate("pipeline", "run", "-", "--home", tmp_path, given=given)
    assert done.returncode == 9
    assert f"{tmp_path}/s3/bucket/why.json, not in s3://bucket/other.json" in done.stderr


@pytest.mark.slow
def test_what_an_execution_is_written_to_goes_by_the_suffix(tmp_path: Path) -> None:
    fail = {"Name": "Fail", "Type": "Fail", "Arguments": {"ErrorMessage": "enough"}}
    given = json.dumps({"Version": "2020-12-01", "Steps": [fail]})
    compilegate("pipeline", "run", "-", "--home", tmp_path, given=given)
    (listed,) = json.loads(compilegate("executions", "--json", "--home", tmp_path).stdout)
    for subject, name, status in (
        (listed["execution"], "x.zip", 0),
        (listed["execution"], "x.csv", 2),
        ("definition", "x.zip", 2),
    ):
        words = ("executions", subject, "--home", tmp_path, "--output")
        assert compilegate(*words, tmp_path / name).returncode == status
        assert (tmp_path / "x.zip").is_file()
