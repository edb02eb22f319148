"""The command: its options, its output, and its exit status."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from compilegate.check.output import NOTHING
from compilegate.cli import main
from tests.check.folders import SLOW_STEP, written

PROJECT = Path(__file__).parents[2]
STALLS = """
import torch_xla.core.xla_model as xm
device = xm.xla_device()
for inputs in loader:
    model(inputs.to(device)).mean().backward()
    optimizer.step()
"""
NOTES = "import torch\nfor x in data:\n    model(x).mean().backward()\n    optimizer.step()\n"
BAD = "import torch\ntorch.autograd.set_detect_anomaly(True)  # why\n" + NOTES


def check(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["check", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("script", "by_level"),
    [
        (STALLS, {"error": 6, "note": 6, "never": 0}),
        (SLOW_STEP, {"error": 0, "warning": 7, "note": 7, "never": 0}),
        (NOTES, {"error": 0, "warning": 0, "note": 8}),
        ("x = 1\n", {"error": 2, "note": 2, "never": 0}),
    ],
)
def test_the_exit_status_tells_the_gravest_finding_that_was_asked_for(
    script: str, by_level: dict[str, int], tmp_path: Path
) -> None:
    written(tmp_path, train=script)
    assert {each: check(tmp_path, "--fail-on", each)[0] for each in by_level} == by_level


def test_without_a_loop_it_says_that_nothing_was_checked(tmp_path: Path) -> None:
    assert check(written(tmp_path, train="x = 1\n")) == (2, f"{NOTHING}\n", "")
    status, said, told = check(tmp_path / "nowhere.py")
    assert (status, said) == (2, "")
    assert told.splitlines() == [
        f"{tmp_path}/nowhere.py: there is no such file or folder",
        "error: nothing was checked: no PATH holds a Python script that can be read",
    ]


def test_a_compiler_is_asked_about_alone(tmp_path: Path) -> None:
    written(tmp_path, train=STALLS)
    assert "missing-mark-step" in check(tmp_path, "--compiler", "xla")[1]
    assert "missing-mark-step" not in check(tmp_path, "--compiler", "torch-compile")[1]


def test_output_goes_to_a_file_and_what_cannot_be_read_to_standard_error(tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    written(tmp_path, train=SLOW_STEP, broken="def f(:\n")
    status, said, told = check(tmp_path, "--format", "json", "--output", target)
    assert (status, said.count("\n")) == (0, 1)
    assert told == f"{tmp_path}/broken.py: not checked: line 1: invalid syntax\n"
    assert "sync-in-step" in [each["rule"] for each in json.loads(target.read_text())["findings"]]
    status, _, told = check(tmp_path, "--output", tmp_path / "no" / "such" / "folder")
    assert (status, told.splitlines()[-1][:17]) == (2, "error: --output: ")


def test_diff_shows_a_fix_and_fix_writes_it_through_links(tmp_path: Path) -> None:
    script, link = written(tmp_path, train=BAD) / "train.py", tmp_path / "linked.py"
    script.chmod(0o754)
    link.symlink_to(script)
    status, said, _ = check(script, "--diff")
    diff = "-torch.autograd.set_detect_anomaly(True)  # why\n+torch.autograd.set_detect_anomaly(F"
    assert (status, diff in said, script.read_text()) == (0, True, BAD)
    status, said, told = check(link, "--fix", "--format", "json")
    assert (status, diff in told) == (0, True)
    assert f"{link}: fixed (debugging-on)" in told
    assert "debugging-on" not in {each["rule"] for each in json.loads(said)["findings"]}
    assert script.read_text() == BAD.replace("True", "False")
    assert (stat.S_IMODE(script.stat().st_mode), link.is_symlink()) == (0o754, True)
    assert check(script, "--diff")[1] == "nothing can be fixed automatically\n"


@pytest.mark.parametrize("more", ["--fix", "--output=x", "--format=sarif"])
def test_diff_goes_alone(more: str, tmp_path: Path) -> None:
    script = written(tmp_path, train=BAD) / "train.py"
    assert (check(script, "--diff", more)[0], script.read_text()) == (2, BAD)


def test_the_hook_of_pre_commit_runs_a_command_that_exists() -> None:
    (hook,) = yaml.safe_load((PROJECT / ".pre-commit-hooks.yaml").read_text())
    program, command = hook["entry"].split()
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    assert program in declared["project"]["scripts"]
    assert command in main.list_commands(click.Context(main))
    assert f"id: {hook['id']}" in (PROJECT / "docs" / "check.md").read_text()
