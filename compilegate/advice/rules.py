"""`rules.toml` as types: the considerations, the options, the thresholds; and ranges, which its
figures are. Pure."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, Literal

from compilegate.rules import table

Kind = Literal["compiler", "library", "machine", "precision", "trees", "none"]
Part = Literal["compute", "launches", "data", "communication", "other"]
PARTS: tuple[Part, ...] = ("compute", "launches", "data", "communication")
"""What a step's time consists of. `compute` is all that the accelerator does, memory included.
`other`, what a program does besides, only a profile knows."""


@dataclass(frozen=True)
class Range:
    """A range from `low` to `high`, both included and finite. It is no confidence interval:
    arithmetic keeps to the ends, so that a result holds every outcome that its inputs allow."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError(f"the range is {self.low} to {self.high}, expected finite, in order")

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return Range(self.low - other.high, self.high - other.low)

    def times(self, other: Range | float) -> Range:
        by = other if isinstance(other, Range) else Range(other, other)
        return over_corners(lambda one, another: one * another, self, by)

    def hull(self, *others: Range) -> Range:
        every = (self, *others)
        return Range(min(each.low for each in every), max(each.high for each in every))


def over_corners(amount: Callable[..., float], *ranges: Range) -> Range:
    """The range of an amount that is monotonic in each of its inputs alone: its extremes are at
    the corners."""
    ends = [amount(*corner) for corner in product(*((each.low, each.high) for each in ranges))]
    return Range(min(ends), max(ends))


NOTHING = Range(0.0, 0.0)
UNCHANGED = Range(1.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Consideration:
    """One of the seven questions."""

    name: str
    title: str
    question: str
    settles: str
    find_out: str
    kinds: tuple[Kind, ...]
    change: str
    rules: tuple[str, ...]  # the rules of `compilegate check` that bear on it


@dataclass(frozen=True, kw_only=True)
class Figures:
    """How many times as fast the attacked parts get, and who says so."""

    speedup: Range | None = None
    published: str = ""
    """What others measured and wrote down; empty: it is this project's own guess."""
    assumed: str = ""


@dataclass(frozen=True, kw_only=True)
class Instead(Figures):
    """Figures for other conditions."""

    when: Literal["varying", "cpu", "fp32", "untested", "family"]


@dataclass(frozen=True, kw_only=True)
class Option(Figures):
    """One thing that may be done; a person spends `engineer_hours` or more on trying it."""

    name: str
    title: str
    kind: Kind
    source: str
    engineer_hours: float
    compiler: str | None = None
    backend: str | None = None
    library: str | None = None
    """The library's name in the catalog; None for options that run anywhere."""
    attacks: tuple[Part, ...] = ()
    figures_of: str | None = None  # what the published figures are of, in words
    families: tuple[str, ...] = ()  # the model families that they are of; none listed means any
    instead: tuple[Instead, ...] = ()
    compile_seconds: Range = NOTHING  # compile time, where the catalog has none
    static_only: bool = False
    needs_half: bool = False
    instance_type: str | None = None  # the instance that it moves to
    never: str | None = None  # why it is of no use to a workload that trains


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The whole table, the weightiest consideration first."""

    date: str
    thresholds: dict[str, float]
    modules: dict[str, str]
    families: dict[str, str]
    parts: dict[str, str]
    considerations: tuple[Consideration, ...]
    options: tuple[Option, ...]


@cache
def rules() -> Rules:
    """The table, read once."""
    text = files("compilegate.advice").joinpath("rules.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    for option in raw["options"]:
        option["instead"] = [Instead(**_typed(each)) for each in option.get("instead", ())]
    considered = (
        Consideration(rules=table().bearing_on(each["name"]), **_typed(each))
        for each in raw.pop("considerations")
    )
    options = (Option(**_typed(each)) for each in raw.pop("options"))
    return Rules(considerations=tuple(considered), options=tuple(options), **raw)


def _typed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Pairs of numbers as ranges, other lists as tuples."""

    def typed(each: Any) -> Any:
        if not isinstance(each, list):
            return each
        numbers = each and isinstance(each[0], (int, float))
        return Range(*map(float, each)) if numbers else tuple(each)

    return {key: typed(each) for key, each in entry.items()}
