"""Scripts that tests write, and what a check says of them."""

from __future__ import annotations

import textwrap
from pathlib import Path

from compilegate.check.checking import check_paths
from compilegate.check.findings import Checked
from compilegate.rules import COMPILERS

SLOW_STEP = """
import torch


def train(model, loader, optimizer):
    total = 0.0
    for inputs, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""
"""A script with one finding of `item-in-step`, in line 11."""


def written(folder: Path, **scripts: str) -> Path:
    """Write scripts into a folder by their names without `.py`."""
    for name, text in scripts.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


def found(folder: Path, rule: str, compilers: tuple[str, ...] = COMPILERS) -> list[tuple[str, int]]:
    """Where a rule finds something: the file's name and the line."""
    return places(check_paths([folder], compilers), rule)


def places(checked: Checked, rule: str) -> list[tuple[str, int]]:
    """The findings of a rule by file and line."""
    return [(each.path.name, each.line) for each in checked.findings if each.rule == rule]
