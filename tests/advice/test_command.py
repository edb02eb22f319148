"""`compilegate advise` on the command line: four lines, all options, JSON, all workloads; and what
the check of a workload's own script says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compilegate.advice.facts import Obstacle
from compilegate.advice.judge import Stance, Verdict, advise
from compilegate.advice.render import in_the_way
from compilegate.cli import main
from compilegate.rules import table
from compilegate.workload import read_workload
from tests.advice.declared import KNOWN, declared, known

SHORT = 'runs_per_week = 3\nhours = 0.25\nbottleneck = "compute"'


def asked(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(
        main,
        ["advise", *words, "--project", str(folder.parent), "--home", str(folder / "home")],
        catch_exceptions=False,
    )


def flat(result: Result) -> str:
    return " ".join(result.output.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a project's workloads: the article's three."""
    workloads = tmp_path / "workloads"
    workloads.mkdir()
    declared(workloads)
    photos = {"model": "stable-diffusion-v1-5", "batch": 4, "instance": "ml.g5.12xlarge"}
    told = "runs_per_week = 1\nhours = 18"
    declared(workloads, program=True, name="photos", gpus=(16, 4), advice=told, **photos)
    told = "runs_per_week = 7\nhours = 1.5"
    cpu = {"instance": "ml.m6i.12xlarge", "gpus": (1, 1), "precision": "fp32", "model": "trees"}
    declared(workloads, program=True, name="tabular", advice=told, **cpu)
    (workloads / "tabular" / "train.py").write_text("import xgboost\n", encoding="utf-8")
    return workloads


def test_an_answer_is_four_lines_and_the_rest_is_folded(folder):
    short = asked(folder, "bert")
    assert short.output.startswith("bert: enable SageMaker Training Compiler")
    for label in ("worth it:", "what decides:", "rests on:", "would change:"):
        assert short.output.count(label) == 1
    assert "1. Where the step's time goes" not in short.output
    whole = asked(folder, "bert", "--options").output
    for rank in range(1, 8):
        assert f" {rank}. " in whole
    for title in ("torch.compile", "NVIDIA Transformer Engine", "(SMDDP)", "No change"):
        assert title in whole


def test_all_workloads_are_told_where_to_start(folder):
    (folder / "broken.toml").write_text("name = 3", encoding="utf-8")
    execution = folder / "home" / "executions" / "abc"
    execution.mkdir(parents=True)
    (execution / "verdict.json").write_text("{}", encoding="utf-8")  # of another kind
    printed = asked(folder, "--all").output
    assert "Start with bert: SageMaker Training Compiler." in printed
    rows = [line.split()[0] for line in printed.splitlines() if line.startswith("  ")]
    assert rows == ["WORKLOAD", "bert", "photos", "tabular"]
    assert "broken.toml" in printed


def test_json_holds_every_option_with_its_ranges_and_its_four_lines(folder):
    told = json.loads(asked(folder, "bert", "--json").output)
    assert told["best"] == told["compiler"] == "training-compiler"
    found = next(each for each in told["options"] if each["name"] == "training-compiler")
    assert found["verdict"] == "enable"
    assert found["answer"] == told["answer"]
    assert found["outcome"]["saved_usd_per_year"]["low"] > 0
    assert [each["rank"] for each in found["considerations"]] == list(range(1, 8))
    everything = json.loads(asked(folder, "--all", "--json").output)
    assert everything["workloads"][0]["workload"] == everything["start"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "name one workload, or give --all"),
        (("bert", "--all"), "name one workload"),
        (("--all", "--options"), "--options"),
        (("nobody",), "no such file"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(folder, words, told):
    result = asked(folder, *words)
    assert result.exit_code == 2
    assert told in result.output + result.stderr


def test_one_price_holds_wherever_something_is_priced(tmp_path):
    """A plan and the gate take the prices that the file declares, as advice does."""
    path = declared(tmp_path, advice=f"{KNOWN}\nusd_per_hour = 9")
    assert read_workload(path).declared_prices == {"ml.g5.48xlarge": 9.0}
    with path.open("a", encoding="utf-8") as file:
        file.write('\n[budget]\nusd_per_hour = { "ml.g5.48xlarge" = 8.0 }\n')
    assert read_workload(path).declared_prices == {"ml.g5.48xlarge": 8.0}
    elsewhere = known(tmp_path, region="eu-north-1").usd_per_hour
    assert elsewhere.known
    assert "none is known for eu-north-1" in elsewhere.source


@pytest.mark.parametrize(
    ("libraries", "told", "framework"),
    [
        ({"transformers", "sklearn"}, "", "pytorch"),
        ({"transformers", "xgboost"}, "", "pytorch"),
        ({"timm", "sklearn"}, "", "pytorch"),
        ({"sklearn"}, "", "scikit-learn"),
        ({"sklearn", "ours"}, 'framework = "pytorch"', "pytorch"),
        ({"flax", "optax"}, 'framework = "pytorch"', "pytorch"),  # that decides nothing
        ({"tensorflow"}, "", "tensorflow"),
        ({"ours"}, "", None),
    ],
)
def test_the_framework_is_what_a_program_imports_or_people_say(
    tmp_path, libraries, told, framework
):
    facts = known(tmp_path, program=True, advice=told, libraries=frozenset(libraries))
    doubtful = not libraries.isdisjoint({"transformers", "optax"})
    assert facts.framework.value == framework
    assert facts.framework.known == (framework is not None and not doubtful)
    assert ("but the program imports flax" in facts.framework.source) is ("optax" in libraries)


# What the check found in the workload's own script.

BEARS = table().bearing_on("shapes")[0]
DISCARDED = """import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
torch.compile(model)
for batch in torch.zeros(8, 4, 4):
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
"""


def obstacle(severity: str, compiler: str) -> Obstacle:
    sentence = f"program/train.py:14:5: what is wrong [{BEARS}]"
    return Obstacle(rule=BEARS, severity=severity, sentence=sentence, compilers=(compiler,))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (obstacle("warning", "training-compiler"), Verdict.BENCHMARK),
        (obstacle("note", "training-compiler"), Verdict.ENABLE),
        (obstacle("error", "torch-compile"), Verdict.ENABLE),
    ],
)
def test_nothing_is_enabled_before_the_script_is_mended(tmp_path, found, verdict):
    option = advise(known(tmp_path, obstacles=(found,))).option("training-compiler")
    assert option.verdict is verdict
    if verdict is Verdict.BENCHMARK:
        assert option.reason == f"mend the script first: {found.sentence}"
        (shapes,) = (each for each in option.considerations if each.of == "shapes")
        assert shapes.stance is Stance.AGAINST


def test_validate_names_an_arm_that_will_not_pay_or_whose_script_stands_in_the_way(tmp_path):
    arm = '[arms.compiled]\ncompiler = "inductor"\nbatch_size = 32\nlearning_rate = 2e-5\n'
    arm += 'precision = "fp16"\ndistribution = "torchrun"\ninstance_count = 8\nprocesses = 8\n'
    assert in_the_way(advise(known(tmp_path, arms=arm))) is None
    short = in_the_way(advise(known(tmp_path, arms=arm, advice=SHORT)))
    assert short is not None
    assert "torch.compile should stay off: a run takes 15 min" in short
    bad = (obstacle("error", "torch-compile"),)
    said = in_the_way(advise(known(tmp_path, arms=arm, obstacles=bad)))
    assert said is not None
    assert "the script stands in the way of torch.compile: program/train.py:14:5" in said


def test_the_command_reads_the_workloads_own_script(tmp_path):
    path = declared(tmp_path, program=True, advice="hours = 18", gpus=(1, 1))
    (tmp_path / path.stem / "train.py").write_text(DISCARDED, encoding="utf-8")
    words = ["advise", str(path), "--json", "--home", str(tmp_path)]
    told = json.loads(CliRunner().invoke(main, words, catch_exceptions=False).output)
    option = next(each for each in told["options"] if each["name"] == "torch-compile")
    (first, *_) = option["obstacles"]
    assert first["severity"] == "error"
    assert first["sentence"].startswith(f"{path.stem}/train.py:5:1: ")
    assert told["facts"]["framework"]["value"] == "pytorch"
