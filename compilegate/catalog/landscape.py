"""Other ways to train faster, newer instances, and frameworks without a graph. Pure."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from compilegate.catalog.instances import Instance, instance_class, instances, processor_of
from compilegate.catalog.prices import Price, UnknownPrice, price_of


@dataclass(frozen=True, kw_only=True)
class Option:
    """One way to train faster, or to leave things as they are."""

    name: str
    title: str
    does: str
    frameworks: str
    best_for: str
    minimum_minutes: int
    """The shortest job that is likely to repay it; 0 if it costs nothing up front."""
    shapes: str
    precision: str
    with_training_compiler: str
    """Whether the two go together, and why."""
    source: str
    date: str


@dataclass(frozen=True, kw_only=True)
class Graphless:
    """A framework that has no graph to compile."""

    framework: str
    why: str
    instead: str
    """What makes it faster instead."""
    source: str
    date: str


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """A newer instance and its price per hour."""

    instance: Instance
    price: Price | UnknownPrice

    def times_dearer(self, than: Price | UnknownPrice) -> float | None:
        """Price per hour as a multiple of another; None if either is unknown."""
        if isinstance(self.price, UnknownPrice) or isinstance(than, UnknownPrice):
            return None
        return self.price.usd_per_hour / than.usd_per_hour


def options() -> tuple[Option, ...]:
    """Every option, the status quo first."""
    table = _table()
    return tuple(Option(date=table["date"], **entry) for entry in table["options"])


def graphless(framework: str) -> Graphless | None:
    """Why a framework cannot be compiled; None if the catalog knows no reason."""
    table = _table()
    for entry in table["graphless"]:
        if entry["framework"] == framework:
            return Graphless(date=table["date"], **entry)
    return None


def upgrades_from(instance_type: str, region: str | None = None) -> tuple[Upgrade, ...]:
    """Newer instances with their prices per hour: cheapest first, unknown prices last.

    Empty for the newest, and for a class that is not in the catalog.
    """
    wanted = instance_class(instance_type)
    if processor_of(instance_type) == "cpu":
        wanted = "cpu"
    found = (
        Upgrade(instance=instances()[name], price=price_of(name, region))
        for name in _table()["upgrades"].get(wanted, ())
    )
    return tuple(sorted(found, key=_dollars))


def _dollars(upgrade: Upgrade) -> float:
    price = upgrade.price
    return price.usd_per_hour if isinstance(price, Price) else math.inf


@cache
def _table() -> Mapping[str, Any]:
    text = (
        files("compilegate.catalog").joinpath("facts", "landscape.toml").read_text(encoding="utf-8")
    )
    return tomllib.loads(text)
