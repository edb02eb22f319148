"""`compilegate profile` on the command line: what it refuses, and what it prints."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from compilegate.cli.main import main
from compilegate.document.reading import read_definition
from compilegate.job.contract import PROFILE_FILE, PROFILE_FOLDER
from compilegate.job.files import write_json
from tests.diagnose.test_profile import profile_of

PROJECT = Path(__file__).parents[2]


def said(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["profile", *arguments, "--project", str(PROJECT)])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing.py"], "there is no script nothing.py"),
        (["nothing.py", "--arm", "a"], "--arm is for workloads, and nothing.py is not one"),
        (["news-topics", "--steps", "3"], "3 is not in the range 12<=x<=1000"),
        (["news-topics", "word"], "the argument 'word' is for a script alone"),
        (
            ["news-topics", "--processes", "2"],
            "--processes is for scripts, and news-topics is not one",
        ),
        (["news-topics", "--aws"], "--aws needs --output FILE"),
        (["news-topics", "--arm", "fastest"], "--arm is 'fastest', expected baseline, "),
        (
            ["tumours-xgboost"],
            "tumours-xgboost trains with xgboost (the program imports xgboost); a profile needs a "
            "program that trains with torch",
        ),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_bad_input_is_one_sentence(arguments: list[str], sentence: str) -> None:
    status, _, error = said(*arguments)
    assert status == 2
    assert sentence in error


@pytest.mark.slow
def test_the_jobs_definition_has_the_arm_and_what_it_waits_for(tmp_path: Path) -> None:
    output = tmp_path / "d.json"
    status, *_ = said("news-topics", "-o", str(output))
    assert status == 0
    definition, _ = read_definition(output.read_bytes())
    assert [each.name for each in definition.steps] == ["Prepare", "Train-baseline-1"]


@pytest.mark.slow
def test_a_kept_profile_is_shown_again(tmp_path: Path) -> None:
    write_json(tmp_path / PROFILE_FOLDER / PROFILE_FILE, asdict(profile_of(0.005)))
    status, text, _ = said(str(tmp_path))
    assert status == 0
    assert "The bottleneck: matrix" in text
    assert json.loads(said(str(tmp_path), "--json")[1])["bottleneck"] == "matrix"
