"""What `compilegate check` finds in a workload's own script, as advice takes it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from compilegate.advice import Facts, Obstacle, Stance, Verdict, advise
from compilegate.advice.rules import rules
from compilegate.advice.told.text import advice_text, in_the_way
from compilegate.check.rules.table import BY_NAME
from compilegate.cli import main
from tests.advice.declared import bert, diffusion, facts

KNOWN = 'runs_per_week = 3\nhours = 6\nbottleneck = "compute"'
DISCARDED = """import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
torch.compile(model)
for batch in torch.zeros(8, 4, 4):
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def obstacle(rule: str, severity: str, *compilers: str) -> Obstacle:
    return Obstacle(
        rule=rule,
        severity=severity,
        place="program/train.py:14:5",
        message="what is wrong",
        fix="what to do",
        compilers=compilers,
    )


@pytest.fixture
def known(tmp_path: Path) -> Facts:
    return facts(bert(tmp_path, KNOWN))


def test_each_rule_of_the_check_bears_on_one_consideration() -> None:
    named = [rule for each in rules().considerations for rule in each.rules]
    assert sorted(named) == sorted(BY_NAME)


def test_nothing_is_enabled_before_the_script_is_mended(known: Facts) -> None:
    assert advise(known).option("training-compiler").verdict is Verdict.ENABLE
    hindered = replace(
        known, obstacles=(obstacle("padding-longest", "warning", "training-compiler"),)
    )
    option = advise(hindered).option("training-compiler")
    assert option.verdict is Verdict.BENCHMARK
    assert option.reason == (
        "mend the script first: program/train.py:14:5: what is wrong [padding-longest]"
    )
    shapes = next(each for each in option.considerations if each.name == "shapes")
    assert shapes.stance is Stance.AGAINST


def test_a_note_and_what_stands_in_anothers_way_change_no_verdict(known: Facts) -> None:
    for each in (
        obstacle("full-precision", "note", "training-compiler"),
        obstacle("compiled-discarded", "error", "torch-compile"),
    ):
        option = advise(replace(known, obstacles=(each,))).option("training-compiler")
        assert option.verdict is Verdict.ENABLE


def test_what_stops_an_option_is_told_before_its_script(tmp_path: Path) -> None:
    short = facts(bert(tmp_path, 'runs_per_week = 3\nhours = 0.25\nbottleneck = "compute"'))
    before = advise(short).option("training-compiler")
    after = advise(
        replace(short, obstacles=(obstacle("missing-mark-step", "error", "training-compiler"),))
    ).option("training-compiler")
    assert (after.verdict, after.reason) == (Verdict.OFF, before.reason)


def test_an_open_question_says_what_the_script_has(tmp_path: Path) -> None:
    known = facts(diffusion(tmp_path, "runs_per_week = 1\nhours = 18"))
    hindered = replace(known, obstacles=(obstacle("item-in-step", "warning", "torch-compile"),))
    option = advise(hindered).option("torch-compile")
    assert "the script has program/train.py:14:5: what is wrong [item-in-step]" in option.reason


def test_the_text_names_the_gravest_lines_and_how_many_more(known: Facts) -> None:
    found = tuple(obstacle("item-in-step", "warning", "torch-compile") for _ in range(5))
    printed = "\n".join(advice_text(advise(replace(known, obstacles=found))))
    assert "in the script: warning: program/train.py:14:5: what is wrong [item-in-step]" in printed
    assert "in the script: 2 more; `compilegate check` has all" in printed


def test_the_line_for_validate_names_an_error_in_the_way_of_a_declared_arm(known: Facts) -> None:
    hindered = replace(
        known,
        compilers=("inductor",),
        obstacles=(obstacle("compiled-discarded", "error", "torch-compile"),),
    )
    said = in_the_way(advise(hindered))
    assert said is not None
    assert in_the_way(advise(known)) is None
    assert "the script stands in the way of torch.compile: program/train.py:14:5" in said


def test_the_commands_read_the_workloads_own_script(tmp_path: Path) -> None:
    path = diffusion(tmp_path, "runs_per_week = 1\nhours = 18")
    (tmp_path / path.stem / "train.py").write_text(DISCARDED, encoding="utf-8")
    said = CliRunner().invoke(
        main,
        ["advise", str(path), "--json", "--home", str(tmp_path)],
        catch_exceptions=False,
    )
    told = json.loads(said.output)
    option = next(each for each in told["options"] if each["name"] == "torch-compile")
    assert [(each["rule"], each["severity"], each["place"]) for each in option["obstacles"]] == [
        ("compiled-discarded", "error", f"{path.stem}/train.py:5:1"),
        ("item-in-step", "warning", f"{path.stem}/train.py:10:11"),
        ("full-precision", "note", f"{path.stem}/train.py:6:1"),
    ]
