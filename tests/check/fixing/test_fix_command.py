"""`compilegate check --fix` and `--diff`."""

from __future__ import annotations

import json
import stat

import pytest
from click.testing import CliRunner

from compilegate.cli.main import main

BAD = """import torch
from torch import nn

model = nn.Linear(2, 1)
torch.compile(model)  # fast
model(torch.randn(1, 2))
"""


def check(*arguments: object):
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(BAD, encoding="utf-8")
    path.chmod(0o754)
    return path


def test_fix_writes_the_file_and_tells_what_is_left(script):
    result = check(script, "--fix", "--format", "json", "--compiler", "torch-compile")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["findings"] == []
    assert f"{script}: 1 fixed (compiled-discarded)" in result.stderr
    assert script.read_text(encoding="utf-8") == BAD.replace(
        "torch.compile(model)", "model.compile()"
    )
    assert stat.S_IMODE(script.stat().st_mode) == 0o754
    assert [each.name for each in script.parent.iterdir()] == ["train.py"]


def test_diff_shows_the_change_and_makes_none(script):
    result = check(script, "--diff")
    assert result.exit_code == 0
    assert "-torch.compile(model)  # fast\n+model.compile()  # fast\n" in result.stdout
    assert script.read_text(encoding="utf-8") == BAD


def test_diff_says_when_there_is_nothing(script):
    script.write_text("import torch\n", encoding="utf-8")
    assert check(script, "--diff").stdout == "nothing can be fixed automatically\n"


@pytest.mark.parametrize(
    "more", [("--fix",), ("--output", "x"), ("--format", "sarif")], ids="-".join
)
def test_diff_goes_alone(script, more):
    result = check(script, "--diff", *more)
    assert result.exit_code == 2
    assert script.read_text(encoding="utf-8") == BAD


def test_a_link_to_a_script_stays_a_link(script, tmp_path):
    link = tmp_path / "linked.py"
    link.symlink_to(script)
    assert check(link, "--fix").exit_code == 0
    assert link.is_symlink()
    assert "model.compile()" in script.read_text(encoding="utf-8")
