"""Arms with compiler = "xla", from the workload's file to the verdict, on this machine."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.command import compilegate
from tests.environments.xla import interpreter

pytestmark = [pytest.mark.slow, pytest.mark.long]

TOPICS = {"sea": "ship harbour captain anchor", "bank": "money loan credit interest"}
WORKLOAD = """
name = "traced"
description = "Two topics that differ in every word"
seeds = [1]

[data]
source = "files"
train = "train.csv"
validation = "validation.csv"
sequence_length = 16
vocabulary = 64

[model]
source = "random"
layers = 1
hidden_size = 16
attention_heads = 2
intermediate_size = 16
dropout = 0.0

[recipe]
epochs = 3

[arms.baseline]
compiler = "eager"
image = "xla"
batch_size = 8
learning_rate = 3e-3

[arms.traced]
compiler = "xla"
step_graphs = 2
batch_size = 8
learning_rate = 3e-3

[arms.together]
compiler = "xla"
distribution = "torchrun"
processes = 2
batch_size = 4
learning_rate = 3e-3

[gate]
min_speedup = 1000.0

[gate.metrics.accuracy]
direction = "higher"
margin = 0.45
"""


def write_split(path: Path, documents: int) -> None:
    chance = random.Random(path.name)  # each split has texts of its own
    rows = ["text,label"]
    for number in range(documents):
        label = sorted(TOPICS)[number % 2]
        words = " ".join(chance.choices(TOPICS[label].split(), k=6))
        rows.append(f"{words} {number},{label}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def test_the_gate_judges_what_xla_trained_in_one_process_and_in_two(tmp_path: Path) -> None:
    python = interpreter()
    if python is None:
        pytest.skip("NO ARM WAS TRAINED WITH XLA: make the environment with `make xla-env`")
    (tmp_path / "traced.toml").write_text(WORKLOAD, encoding="utf-8")
    write_split(tmp_path / "train.csv", 64)
    write_split(tmp_path / "validation.csv", 40)
    home = tmp_path / "home"
    where = ["--home", home, "--image", f"*/xla:*={python}"]
    done = compilegate("run", tmp_path / "traced.toml", *where)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = home.glob("executions/*/verdict.json")
    verdict = json.loads(path.read_text(encoding="utf-8"))
    # Too slow, and one seed; else XLA ran, in the same environment, and calculated what eager does.
    assert [each["arm"] for each in verdict["candidates"]] == ["traced", "together"]
    for candidate in verdict["candidates"]:
        assert {reason["code"] for reason in candidate["reasons"]} == {
            "quality.single_seed",
            "parity.alike",
            "speed.below_minimum",
        }
        assert candidate["parity"]["answer"] == "pass"
        assert all(confound["intended"] for confound in candidate["confounds"])
    assert verdict["decision"]["arm"] == "baseline"
