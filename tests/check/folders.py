"""What tests of the check write, and where a rule finds something in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from compilegate.check.checking import CheckResult, check_paths
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
"""A script with one finding of `sync-in-step`, in line 11."""


def written(folder: Path, **scripts: str) -> Path:
    """Write scripts into a folder by their names without `.py`; `a__b` is `a/b.py`."""
    for name, text in scripts.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def notebook(path: Path, *cells: str) -> Path:
    """Write a notebook of code cells."""
    made: list[dict[str, Any]] = [{"cell_type": "code", "source": [each]} for each in cells]
    path.write_text(json.dumps({"cells": made, "nbformat": 4}), encoding="utf-8")
    return path


def places(checked: CheckResult) -> list[tuple[str, int]]:
    """The findings of `sync-in-step` by file and line."""
    return [(each.path.name, each.line) for each in checked.findings if each.rule == "sync-in-step"]


def check(folder: Path, *compilers: str, **scripts: str) -> CheckResult:
    """Check scripts that are written into a folder first."""
    return check_paths([written(folder, **scripts)], compilers or COMPILERS)
