"""Workloads as people write them, and what executions of them measured."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from compilegate.advice.facts import Experience, Facts, Machine, Timing, facts_of
from compilegate.advice.rules import Range
from compilegate.workload import read_workload

NOW = datetime(2026, 11, 22, tzinfo=UTC)
KNOWN = 'runs_per_week = 3\nhours = 6\nbottleneck = "compute"'
"""What people say of the article's first workload."""

BUILT_IN = """
[data]
source = "files"
train = "train.csv"
validation = "validation.csv"
sequence_length = {tokens}

[model]
source = "hub"
id = "{model}"

[recipe]
epochs = 3
"""
PROGRAM = """
[data]
source = "folder"
folder = "data"

[program]
folder = "{name}"
image = "training"

[program.hyperparameters]
model_name = "{model}"
"""
WORKLOAD = """
name = "{name}"
description = "A workload."
seeds = [1, 2]
{program}
[arms.baseline]
compiler = "eager"
batch_size = {batch}
learning_rate = 2e-5
precision = "{precision}"
{machines}

{arms}

[compute]
instance_type = "{instance}"
{compute}

[gate.metrics.log_loss]
direction = "lower"
margin = 0.05

[advice]
{advice}
"""


def declared(folder: Path, *, program: bool = False, **changes: Any) -> Path:
    """A workload's file: the article's BERT, but for what is changed; with `program` a program of
    the team. `gpus` are the instances and the processes of each."""
    given = {
        "name": "bert",
        "model": "bert-base-cased",
        "tokens": 128,
        "batch": 32,
        "precision": "fp16",
        "gpus": (8, 8),
        "arms": "",
        "instance": "ml.g5.48xlarge",
        "compute": "",
        "advice": KNOWN,
        **changes,
    }
    given["machines"] = "" if program else 'padding = "max"\n'
    if given["gpus"] != (1, 1):
        many = 'distribution = "torchrun"\ninstance_count = {}\nprocesses = {}'
        given["machines"] += many.format(*given["gpus"])
    if program:
        (folder / given["name"]).mkdir(exist_ok=True)
        (folder / given["name"] / "train.py").write_text("import torch\n", encoding="utf-8")
    given["program"] = (PROGRAM if program else BUILT_IN).format(**given)
    path = folder / f"{given['name']}.toml"
    path.write_text(WORKLOAD.format(**given), encoding="utf-8")
    return path


def known(folder: Path, **changes: Any) -> Facts:
    """What is known of such a workload."""
    own = ("libraries", "region", "profiled", "obstacles", "timings", "bases")
    about = {key: changes.pop(key) for key in own if key in changes}
    return facts_of(read_workload(declared(folder, **changes)), now=NOW, **about)


LAPTOP = Machine(None, None)
MEASURED: dict[str, Any] = {
    "execution": "k3v9x0qhw2ta",
    "started": 1.0,
    "workload": "bert",
    "machine": Machine("ml.g5.48xlarge", "NVIDIA A10G"),
    "batch_size": 32,
    "precision": "fp16",
}


def experience(**changes: Any) -> Experience:
    """An execution of the article's BERT that passed at 1.35 to 1.43 times."""
    given = {
        **MEASURED,
        "arm": "compiled",
        "option": "torch-compile",
        "outcome": "pass",
        "regression": None,
        "speedup": Range(1.35, 1.43),
        "estimate": 1.39,
        "confidence": 0.95,
        "compile_seconds": Range(20.0, 150.0),
        "same_batch": True,
        "sequence_length": 128,
        "family": "transformer",
        "shapes": "static",
    }
    return Experience(**(given | changes))


def timing(**changes: Any) -> Timing:
    """How long the baseline of that execution trained."""
    given = {**MEASURED, "hours": Range(6.1, 6.2), "steps": 60_000}
    return Timing(**(given | changes))
