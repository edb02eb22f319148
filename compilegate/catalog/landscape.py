"""Frameworks without a graph, what makes them faster instead; newer instances; services. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from compilegate.catalog.maintenance import Maintenance, maintenance_of


@dataclass(frozen=True, kw_only=True)
class Graphless:
    """A framework that has no graph to compile."""

    framework: str
    why: str
    instead: str
    """What makes it faster instead."""
    source: str
    date: str


def graphless(framework: str) -> Graphless | None:
    """Why a framework cannot be compiled; None if the catalog knows no reason."""
    table = _table()
    for entry in table["graphless"]:
        if entry["framework"] == framework:
            return Graphless(date=table["date"], **entry)
    return None


def service(name: str) -> Maintenance:
    """How long a service of AWS's is to be had: `profiler`, `debugger`."""
    return maintenance_of(_table()["services"][name])


def upgrades(instance_class: str) -> tuple[str, ...]:
    """Instance types that come next after those of a class; none where the catalog has none."""
    return tuple(_table()["upgrades"].get(instance_class, ()))


@cache
def _table() -> Mapping[str, Any]:
    text = (
        files("compilegate.catalog").joinpath("facts", "landscape.toml").read_text(encoding="utf-8")
    )
    return tomllib.loads(text)
