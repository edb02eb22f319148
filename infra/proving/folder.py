"""The project that is deployed to prove with: two small workloads in a folder of their own."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

PROJECT = "cgproof"
"""What every name in the account begins with."""
WORKLOAD, SECOND = "proof", "second"
PREFIX = f"incoming/{WORKLOAD}/"
TOPICS = {"sea": "ship harbour captain anchor", "bank": "money loan credit interest"}
ROWS = {"train": 64, "validation": 40}

SETTINGS = """\
project = "{project}"
account = "{account}"
region = "{region}"

[storage]
retain = false
"""

DECLARED = """\
name = "{name}"
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

[recipe]
epochs = 2

[arms.baseline]
compiler = "eager"
batch_size = 8
learning_rate = 3e-3

[arms.candidate]
compiler = "eager"
batch_size = 4
learning_rate = 3e-3

[compute]
instance_type = "ml.m5.xlarge"
max_runtime_seconds = 1800
processing_max_runtime_seconds = 1800

# No arm is a thousand times as fast: the baseline's model is what is registered.
[gate]
min_speedup = 1000.0

[gate.metrics.accuracy]
direction = "higher"
margin = 0.45
"""

SERVED = """
[serving]
deploy = "serverless"

[new_data]
prefix = "{prefix}"
enabled = true

[budget]
execution_usd = 1.2
usd_per_hour = {{ "ml.m5.xlarge" = 0.23 }}
"""

SCHEDULED = """
[schedule]
expression = "{expression}"
timezone = "UTC"
enabled = true
"""


@dataclass(frozen=True)
class Folder:
    """Where it lies."""

    path: Path

    def make(self, account: str, region: str) -> None:
        """Write it anew, with both workloads."""
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / "infra").mkdir(parents=True)
        (self.path / "workloads").mkdir()
        self._write(
            "infra/settings.toml",
            SETTINGS.format(project=PROJECT, account=account, region=region),
        )
        # The CDK's flags decide templates, so they are those of every project.
        shutil.copyfile(Path(__file__).resolve().parents[2] / "cdk.json", self.path / "cdk.json")
        for split, rows in ROWS.items():
            self._write(f"workloads/{split}.csv", table(split, rows))
        self.declare()
        self._write(f"workloads/{SECOND}.toml", DECLARED.format(name=SECOND))

    def declare(self, *, expression: str | None = None, month_usd: float | None = None) -> None:
        """The first workload, with what one of the claims needs of it."""
        text = DECLARED.format(name=WORKLOAD) + SERVED.format(prefix=PREFIX)
        if month_usd is not None:
            text += f"month_usd = {json.dumps(month_usd)}\n"
        if expression is not None:
            text += SCHEDULED.format(expression=expression)
        self._write(f"workloads/{WORKLOAD}.toml", text)

    def forget_second(self) -> None:
        """What makes its stack an orphan."""
        (self.path / "workloads" / f"{SECOND}.toml").unlink(missing_ok=True)

    def _write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")


def table(split: str, rows: int) -> str:
    """Documents of two topics, always the same: each names three of its topic's words."""
    lines = ["text,label"]
    for number in range(rows):
        label = sorted(TOPICS)[number % len(TOPICS)]
        words = TOPICS[label].split()
        chosen = [words[(number // len(TOPICS) + step) % len(words)] for step in (0, 1, 3)]
        lines.append(f"{' '.join(chosen)} {split} {number},{label}")
    return "\n".join(lines) + "\n"
