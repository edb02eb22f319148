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
STATUS_QUO = "status-quo"


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, both included and finite. It is no confidence interval: arithmetic
    keeps to the ends, so that a result holds every outcome that its inputs allow."""

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
        """The products of both."""
        by = other if isinstance(other, Range) else Range(other, other)
        return over_corners(lambda one, another: one * another, self, by)

    def hull(self, other: Range) -> Range:
        """The smallest range that holds both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def holds(self, value: float) -> bool:
        """Whether the value lies in it."""
        return self.low <= value <= self.high

    def overlaps(self, other: Range) -> bool:
        """Whether the two have a value in common."""
        return self.low <= other.high and other.low <= self.high


def over_corners(amount: Callable[..., float], *ranges: Range) -> Range:
    """The range of an amount that is monotonic in each of its inputs alone: its extremes are at
    the corners."""
    ends = [amount(*corner) for corner in product(*((each.low, each.high) for each in ranges))]
    return Range(min(ends), max(ends))


NOTHING = Range(0.0, 0.0)
UNCHANGED = Range(1.0, 1.0)
"""As a factor."""


@dataclass(frozen=True, kw_only=True)
class Consideration:
    """One of the seven questions."""

    name: str
    title: str
    question: str
    settles: str
    """What the answer decides."""
    find_out: str
    rules: tuple[str, ...]
    """The rules of `compilegate check` that bear on it."""
    rank: int
    """1 is the weightiest."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One thing that may be done."""

    name: str
    title: str
    kind: Kind
    source: str
    engineer_hours: Range
    """What a person spends on trying it."""
    compiler: str | None = None
    backend: str | None = None
    library: str | None = None
    """Its name in the catalog, which says where it runs; None for what runs anywhere."""
    attacks: tuple[Part, ...] = ()
    """The parts of a step that get faster."""
    speedup: Range | None = None
    """How many times as fast those parts get."""
    published: str | None = None
    """The published figures that the range rests on."""
    assumed: str | None = None
    """What of the range is this project's own guess."""
    figures_of: str | None = None
    """What the published figures are of, in words."""
    families: tuple[str, ...] = ()
    """The model families that they are of; none listed means any."""
    untested_speedup: Range | None = None
    untested_because: str | None = None
    fp32_speedup: Range | None = None
    fp32_because: str | None = None
    cpu_speedup: Range | None = None
    cpu_because: str | None = None
    varying_speedup: Range | None = None
    """Where shapes vary from step to step."""
    compile_seconds: Range | None = None
    """None: the catalog has it, or nothing is compiled."""
    static_only: bool = False
    needs_half: bool = False
    several_instances: bool = False
    too_large_only: bool = False
    """Whether it serves models that do not fit one accelerator, and no others."""
    instance_types: tuple[str, ...] = ()
    """Where it runs, if not on the present instance; the smallest first."""
    price_factor: Range = UNCHANGED
    """What an hour costs, as a multiple of the present price."""
    trees: str | None = None
    """The framework of trees that it is a lever of."""

    @property
    def figures(self) -> str:
        """What the usual range rests on."""
        guess = f"assumed: {self.assumed}" if self.published and self.assumed else self.assumed
        return "; ".join(each for each in (self.published, guess) if each)


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """From when on something counts."""

    enable_speedup: float
    off_speedup: float
    compiler_minutes: float
    usd_per_engineer_hour: Range
    bottleneck_share: Range
    other_share: Range


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The whole table."""

    date: str
    thresholds: Thresholds
    considerations: tuple[Consideration, ...]
    """The weightiest first."""
    options: tuple[Option, ...]

    def question(self, name: str) -> Consideration:
        """The consideration of that name. Raises StopIteration."""
        return next(each for each in self.considerations if each.name == name)


@cache
def rules() -> Rules:
    """The table, read once."""
    text = files("compilegate.advice").joinpath("rules.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    return Rules(
        date=raw["date"],
        thresholds=Thresholds(**_typed(raw["thresholds"])),
        considerations=tuple(
            Consideration(rank=rank, rules=table().bearing_on(each["name"]), **each)
            for rank, each in enumerate(raw["considerations"], start=1)
        ),
        options=tuple(Option(**_typed(each)) for each in raw["options"]),
    )


def _typed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Pairs of numbers as ranges, lists of words as tuples."""

    def typed(each: Any) -> Any:
        numbers = (
            isinstance(each, list) and each and all(isinstance(it, (int, float)) for it in each)
        )
        if numbers:
            return Range(*map(float, each))
        return tuple(each) if isinstance(each, list) else each

    return {key: typed(each) for key, each in entry.items()}
