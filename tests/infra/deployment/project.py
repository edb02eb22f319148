"""A folder with a project to deploy: this repository's own code, and a tiny workload."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from compilegate.account.settings.pins import write_pins
from compilegate.pipelines.staging import image_folders

REPOSITORY = Path(__file__).parents[3]
COPIED = ("containers", "cdk.json")
"""What an app of the CDK is made from."""
TOPICS = {"sea": "ship harbour captain anchor", "bank": "money loan credit interest"}

SETTINGS = """
project = "trial"
workloads = ["tiny"]

[notifications]
email = "ml-platform@example.com"

[github]
repository = "example/models"
"""

WORKLOAD = """
name = "tiny"
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

[gate]
min_speedup = 1000.0

[gate.metrics.accuracy]
direction = "higher"
margin = 0.45

[schedule]
expression = "cron(0 3 ? * MON *)"
timezone = "Europe/Berlin"
enabled = true

[schedule.parameters]
ModelApprovalStatus = "Approved"

[new_data]
prefix = "incoming/tiny/"
enabled = true
"""
"""No arm is a thousand times faster than another: the baseline's model is what is registered."""


@dataclass(frozen=True)
class Project:
    """The folder."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> Project:
        """Make it, with what a team would declare."""
        for name in COPIED:
            source = REPOSITORY / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
                shutil.copytree(source, path / name, ignore=ignored)
            else:
                shutil.copyfile(source, path / name)
        (path / "infra").mkdir()
        settings = path / "infra" / "settings.toml"
        settings.write_text(SETTINGS, encoding="utf-8")
        bases = {image.base_name for image in image_folders(path / "containers").values()}
        write_pins(settings, dict.fromkeys(bases, f"sha256:{'0' * 64}"))
        (path / "workloads").mkdir()
        project = cls(path)
        project.workload.write_text(WORKLOAD, encoding="utf-8")
        chance = random.Random(0)
        for split, documents in (("train", 64), ("validation", 40)):
            rows = ["text,label"]
            for number in range(documents):
                label = sorted(TOPICS)[number % 2]
                words = " ".join(chance.choices(TOPICS[label].split(), k=6))
                rows.append(f"{words} {number},{label}")
            data = path / "workloads" / f"{split}.csv"
            data.write_text("\n".join(rows) + "\n", encoding="utf-8")
        return project

    @property
    def workload(self) -> Path:
        """The declared file."""
        return self.path / "workloads" / "tiny.toml"

    @property
    def images(self) -> list[str]:
        """The folders of `containers/` with a Dockerfile: each of them is an image."""
        return [path.parent.name for path in (self.path / "containers").glob("*/Dockerfile")]

    def change(self, old: str, new: str) -> None:
        """Change what the workload declares."""
        declared = self.workload.read_text(encoding="utf-8")
        assert old in declared
        self.workload.write_text(declared.replace(old, new), encoding="utf-8")
