"""`compilegate advise` on the command line: text, JSON, a page, arms that `validate` takes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compilegate.cli import main
from compilegate.workload import read_workload
from compilegate.workload.feasibility import check_feasible
from tests.advice.declared import bert, diffusion, trees

KNOWN = 'runs_per_week = 3\nhours = 6\nbottleneck = "compute"'


def asked(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(
        main,
        ["advise", *words, "--project", str(folder.parent), "--home", str(folder / "home")],
        catch_exceptions=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a project's workloads."""
    (tmp_path / "workloads").mkdir()
    return tmp_path / "workloads"


@pytest.fixture
def portfolio(folder: Path) -> Path:
    bert(folder, KNOWN)
    diffusion(folder, "runs_per_week = 1\nhours = 18")
    trees(folder, "runs_per_week = 7\nhours = 1.5")
    return folder


def test_one_workload_is_told_with_what_decided_and_what_is_missing(portfolio):
    printed = asked(portfolio, "product-photos").output
    assert printed.startswith("product-photos: benchmark SageMaker Training Compiler")
    assert "? 1. Where the step's time goes" in printed
    assert "It would settle" in printed
    assert "compilegate profile" in printed


def test_all_workloads_are_told_where_to_start(portfolio):
    (portfolio / "broken.toml").write_text("name = 3", encoding="utf-8")
    printed = asked(portfolio, "--all").output
    assert "Start with bert: SageMaker Training Compiler." in printed
    rows = [line.split()[0] for line in printed.splitlines() if line.startswith("  ")]
    assert rows == ["WORKLOAD", "bert", "product-photos", "tabular"]
    assert "broken.toml" in printed


def test_json_holds_every_option_with_its_ranges(portfolio):
    told = json.loads(asked(portfolio, "bert", "--json").output)
    assert told["best"] == "training-compiler"
    found = next(each for each in told["options"] if each["name"] == "training-compiler")
    assert found["verdict"] == "enable"
    assert found["outcome"]["saved_usd_per_year"]["low"] > 0
    assert [each["rank"] for each in found["considerations"]] == list(range(1, 8))
    everything = json.loads(asked(portfolio, "--all", "--json").output)
    assert everything["workloads"][0]["workload"] == everything["start"]


def test_the_page_needs_nothing_from_anywhere_and_sorts(portfolio):
    page = portfolio / "advice.html"
    assert asked(portfolio, "--all", "--output", str(page)).exit_code == 0
    html = page.read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?!#)', html)
    assert "script-src 'sha256-" in html
    script = re.search(r"<script>(.*)</script>", html, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"sha256-{digest}" in html
    assert html.count('<th scope="col"><button>') >= 4
    assert re.search(r'data-key="\d+\.\d\d"', html)
    assert "Start with bert" in html


def test_what_people_write_is_escaped_on_the_page(folder):
    path = bert(folder, KNOWN)
    text = path.read_text(encoding="utf-8").replace("BERT-base:", "<script>alert(1)</script>")
    path.write_text(text, encoding="utf-8")
    page = folder / "advice.html"
    asked(folder, "bert", "--output", str(page))
    assert "<script>alert" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["bert", "product-photos"])
def test_proposed_arms_leave_the_file_valid(portfolio, name):
    proposed = asked(portfolio, name, "--write-arms").output
    assert "[arms.training-compiler]" in proposed
    path = portfolio / f"{name}.toml"
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{proposed}", encoding="utf-8")
    workload = read_workload(path)
    check_feasible(workload)
    assert workload.arms["training-compiler"].compiler == "training-compiler"
    assert workload.arms["training-compiler"].batch_size == workload.arms["baseline"].batch_size
    again = asked(portfolio, name, "--write-arms").output
    assert "[arms.training-compiler]" not in again


def test_to_trees_no_arm_is_proposed(portfolio):
    proposed = asked(portfolio, "tabular", "--write-arms").output
    assert proposed.startswith("# Nothing to propose for tabular: ")
    assert "[" not in proposed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "name one workload, or give --all"),
        (("bert", "--all"), "name one workload"),
        (("--all", "--write-arms"), "--write-arms"),
        (("nobody",), "no such file"),
        (("bert", "--output", "nowhere/x.html"), "cannot be written"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(portfolio, words, told):
    result = asked(portfolio, *words)
    assert result.exit_code == 2
    assert told in result.output + result.stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("hours = 0", "0.001"),
        ("runs_per_week = -1", "0.001"),
        ("usd_per_hour = 1e300", "1000000"),
        ('bottleneck = "gpu"', "compute"),
        ("data_share = 0.7\ncommunication_share = 0.7", "add up to 1.4"),
        ("hurs = 3", "hours"),
    ],
)
def test_a_wrong_key_of_advice_is_named(folder, line, told):
    bert(folder, line)
    result = asked(folder, "bert")
    assert result.exit_code == 2
    assert told in result.output + result.stderr


def test_files_of_the_home_that_are_no_verdict_are_passed_over(portfolio):
    folder = portfolio / "home" / "executions" / "abc"
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text("{}", encoding="utf-8")
    assert asked(portfolio, "bert").exit_code == 0


def test_titles_stand_in_sentences_as_words_do(folder):
    bert(folder, 'runs_per_week = 1\nhours = 6\nbottleneck = "data"')
    printed = asked(folder, "bert").output
    assert printed.startswith("bert: benchmark a faster data loader")
    assert "1 run a week" in printed
    (row,) = (line for line in printed.splitlines() if line.startswith("  No change"))
    assert row.split()[2:] == ["reference", "$0", "$0"]


def test_a_file_that_is_refused_as_it_stands_gets_no_arms(folder):
    path = bert(folder, KNOWN)
    text = path.read_text(encoding="utf-8")
    arm = '[arms.chips]\ncompiler = "neuron"\nbatch_size = 32\nlearning_rate = 2e-5\n\n[compute]'
    path.write_text(text.replace("[compute]", arm, 1), encoding="utf-8")
    found = asked(folder, "bert", "--write-arms")
    assert found.exit_code == 2
    assert found.stdout == ""
    assert "bert.toml: arms.chips" in found.stderr
