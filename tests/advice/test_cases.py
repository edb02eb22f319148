"""The answers that AWS's documentation, the article and this project's own measurements give, in
cases.toml: small and large batch, short and long training, one GPU and many, all kinds of
instances, language, vision, seq2seq and trees."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from compilegate.advice.facts import Machine
from compilegate.advice.judge import Verdict, advise
from compilegate.advice.render import answer, headline
from compilegate.advice.rules import Range
from tests.advice.declared import experience, known

CASES = tomllib.loads((Path(__file__).parent / "cases.toml").read_text(encoding="utf-8"))
ONE = {"gpus": (1, 1)}


def measured(**given: Any) -> Any:
    if "speedup" in given:
        given["speedup"] = Range(*given["speedup"])
    if "machine" in given:
        given["machine"] = Machine(given["machine"], None)
    return experience(**given)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_answer_is_the_documented_one_in_four_lines(case: dict[str, Any], tmp_path) -> None:
    told = {"advice": case["advice"]} if "advice" in case else {}
    workload = {**case["workload"], **told}
    workload["libraries"] = frozenset(workload.get("libraries", ()))
    found = [measured(**each) for each in case.get("measured", ())]
    advice = advise(known(tmp_path, **workload), found)
    for option in advice.options:
        lines = answer(advice, option)
        assert list(lines) == ["worth it", "what decides", "rests on", "would change"]
        assert all(lines.values()), option.name
    verdicts = {name: str(advice.option(name).verdict) for name in case["verdicts"]}
    assert verdicts == case["verdicts"]
    for name, words in case.get("says", {}).items():
        assert words in " | ".join(answer(advice, advice.option(name)).values()), name
    for name, dollars in case.get("a_year", {}).items():
        outcome = advice.option(name).outcome
        assert outcome is not None
        assert outcome.saved_usd_per_year is not None
        assert outcome.saved_usd_per_year.low < dollars < outcome.saved_usd_per_year.high
    assert case.get("headline", "") in headline(advice)


def test_forty_per_cent_faster_is_less_than_forty_per_cent_of_the_time(tmp_path: Path) -> None:
    # "A 40% speedup on a $20 run nightly is $300 a year": it is 365 x $20 x 28.6%.
    told = "runs_per_week = 7\nhours = 1\nusd_per_hour = 20"
    facts = known(tmp_path, advice=told, instance="ml.g5.xlarge", **ONE)
    gain = {"speedup": (1.4, 1.4), "estimate": 1.4, "compile_seconds": Range(0.0, 0.0)}
    found = measured(machine="ml.g5.xlarge", **gain)
    outcome = advise(facts, [found]).option("torch-compile").outcome
    assert outcome is not None
    assert outcome.saved_share.low == pytest.approx(1 - 1 / 1.4)
    assert outcome.saved_usd_per_year is not None
    assert outcome.saved_usd_per_year.low == pytest.approx(2085.7, abs=0.1)


def test_a_newer_instance_runs_what_the_file_has(tmp_path: Path) -> None:
    """Training Compiler runs neither on g6e nor on p5."""
    arm = '[arms.tc]\ncompiler = "training-compiler"\nbatch_size = 32\nlearning_rate = 2e-5\n'
    arm += 'precision = "fp16"\ndistribution = "pytorchxla"\ninstance_count = 8\n'
    for arms, comes_next in (("", "p4d"), (arm, "p4d")):
        option = advise(known(tmp_path, arms=arms)).option("larger-instance")
        assert f"ml.{comes_next}." in option.reason
    on_p4d = {"instance": "ml.p4d.24xlarge", "gpus": (8, 8)}
    assert "ml.p5." in advise(known(tmp_path, **on_p4d)).option("larger-instance").reason
    option = advise(known(tmp_path, arms=arm, **on_p4d)).option("larger-instance")
    assert option.verdict is Verdict.OFF
    assert "does not support ml.p5.48xlarge" in option.reason
