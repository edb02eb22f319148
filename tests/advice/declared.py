"""Workloads as people write them, and what executions of them measured."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from compilegate.advice import Experience, Facts, Range, facts_of
from compilegate.workload import read_workload

NOW = datetime(2026, 11, 22, tzinfo=UTC)

BERT = """
name = "{name}"
description = "BERT-base: internal document classification."
seeds = [1, 2]

[data]
source = "files"
train = "train.csv"
validation = "validation.csv"
sequence_length = 128

[model]
source = "hub"
id = "bert-base-cased"

[recipe]
epochs = 3

[arms.baseline]
compiler = "eager"
batch_size = 32
learning_rate = 2e-5
precision = "{precision}"
padding = "{padding}"
{machines}

[arms.larger-batch]
compiler = "eager"
batch_size = 64
learning_rate = 2e-5
precision = "{precision}"
{machines}

[compute]
instance_type = "{instance_type}"

[gate.metrics.accuracy]
direction = "higher"
margin = 0.01

[advice]
{advice}
"""
EIGHT = 'distribution = "torchrun"\ninstance_count = 8\nprocesses = 8'

PROGRAM = """
name = "{name}"
description = "A program of the team."
seeds = [1, 2]

[data]
source = "folder"
folder = "data"

[program]
folder = "{name}"
{image}
[program.hyperparameters]
{hyperparameters}

{arms}

[gate.metrics.log_loss]
direction = "lower"
watched = true

[gate.metrics.accuracy]
direction = "higher"
margin = 0.05

[compute]
instance_type = "{instance_type}"

[advice]
{advice}
"""
ARMS = """
[arms.baseline]
compiler = "eager"
batch_size = 4
learning_rate = 1e-5
precision = "fp16"
distribution = "torchrun"
instance_count = 16
processes = 4

[arms.larger-batch]
compiler = "eager"
batch_size = 8
learning_rate = 1e-5
precision = "fp16"
distribution = "torchrun"
instance_count = 16
processes = 4
"""


def bert(folder: Path, advice: str, **changes: str) -> Path:
    """The article's first workload, with these lines in [advice]."""
    given = {
        "name": "bert",
        "precision": "fp16",
        "padding": "max",
        "machines": EIGHT,
        "instance_type": "ml.g5.48xlarge",
        **changes,
    }
    path = folder / f"{given['name']}.toml"
    path.write_text(BERT.format(advice=advice, **given), encoding="utf-8")
    return path


def diffusion(folder: Path, advice: str) -> Path:
    """The article's second workload."""
    program = folder / "product-photos"
    program.mkdir()
    (program / "train.py").write_text("import torch\nimport diffusers\n", encoding="utf-8")
    text = PROGRAM.format(
        name="product-photos",
        image="",
        hyperparameters='model_name = "stable-diffusion-v1-5"',
        arms=ARMS,
        instance_type="ml.g5.12xlarge",
        advice=advice,
    )
    path = folder / "product-photos.toml"
    path.write_text(text, encoding="utf-8")
    return path


ALONE = """
[arms.baseline]
compiler = "eager"
image = "xgboost"
batch_size = 1
learning_rate = 0.1
"""


def trees(folder: Path, advice: str, hyperparameters: str = "") -> Path:
    """The article's third workload."""
    program = folder / "tabular"
    program.mkdir()
    (program / "train.py").write_text("import xgboost\n", encoding="utf-8")
    text = PROGRAM.format(
        name="tabular",
        image='image = "xgboost"',
        hyperparameters=hyperparameters,
        arms=ALONE,
        instance_type="ml.m6i.12xlarge",
        advice=advice,
    )
    path = folder / "tabular.toml"
    path.write_text(text, encoding="utf-8")
    return path


def facts(path: Path, libraries: frozenset[str] = frozenset()) -> Facts:
    return facts_of(read_workload(path), libraries=libraries, now=NOW)


def experience(**changes: object) -> Experience:
    """An execution of the article's first workload that passed at 1.35 to 1.43 times."""
    given: dict[str, object] = {
        "execution": "k3v9x0qhw2ta",
        "started": 1.0,
        "workload": "bert",
        "arm": "compiled",
        "option": "torch-compile",
        "outcome": "pass",
        "regression": None,
        "speedup": Range(1.35, 1.43),
        "compile_seconds": Range(20.0, 150.0),
        "memory_increase": -0.08,
        "same_batch": True,
        "precision": "fp16",
        "instance_type": "ml.g5.48xlarge",
        "accelerator": "NVIDIA A10G",
        "family": "transformer",
        "shapes": "static",
        "baseline_hours": 6.2,
        **changes,
    }
    return Experience(**given)  # type: ignore[arg-type]
