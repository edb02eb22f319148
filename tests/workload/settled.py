"""Workloads and arms for tests: tables of a file, changed, and settled as the product does it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from compilegate.workload import Arm, Workload, WorkloadFile, settle

TOPICS = Path(__file__).parents[1] / "pipelines" / "topics.toml"


def workload_with(path: Path, **changes: Any) -> Workload:
    """The workload of the file with tables changed: `compute={...}`, `arms__compiled={...}`.

    A key whose value is None is left out.
    """
    declared = tomllib.loads(path.read_text(encoding="utf-8"))
    for place, values in changes.items():
        *parents, last = place.split("__")
        table = declared
        for part in parents:
            table = table.setdefault(part, {})
        if isinstance(values, dict):
            merged = {**table.get(last, {}), **values}
            table[last] = {key: value for key, value in merged.items() if value is not None}
        else:
            table[last] = values
    return settle(WorkloadFile.model_validate(declared))


def settled_arm(**table: Any) -> Arm:
    """The arm that `[arms.compiled]` declares with these keys."""
    return workload_with(TOPICS, arms={"compiled": table}).arms["compiled"]
