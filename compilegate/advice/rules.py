"""`rules.toml` as types: the considerations, the options, the thresholds. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from compilegate.advice.ranges import Range
from compilegate.rules import table

Kind = Literal["compiler", "library", "machine", "money", "precision", "trees", "none"]
Part = Literal["compute", "launches", "data", "communication", "other"]
PARTS: tuple[Part, ...] = ("compute", "launches", "data", "communication")
"""What a step's time consists of. `compute` is all that the accelerator does, memory included.
`other`, what a program does besides, only a profile knows."""
STATUS_QUO = "status-quo"


@dataclass(frozen=True, kw_only=True)
class Consideration:
    """One of the seven questions."""

    name: str
    title: str
    question: str
    settles: str
    """What the answer decides."""
    find_out: str
    key: str
    """The key of the workload's file that answers it."""
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
    engineer_because: str
    compiler: str | None = None
    """As an arm names it; None for what is no compiler."""
    backend: str | None = None
    attacks: tuple[Part, ...] = ()
    """The parts of a step that get faster."""
    speedup: Range | None = None
    """How many times as fast those parts get."""
    published: str | None = None
    """The published figures that the range rests on; None: there are none."""
    assumed: str | None = None
    """What of the range is this project's own guess; None: nothing is."""
    untested_speedup: Range | None = None
    untested_because: str | None = None
    fp32_speedup: Range | None = None
    fp32_because: str | None = None
    varying_speedup: Range | None = None
    """Where shapes vary from step to step."""
    compile_seconds: Range | None = None
    compile_because: str | None = None
    frameworks: tuple[str, ...] = ()
    """None listed means any."""
    processors: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    """The only classes of instances; none listed means any."""
    accelerators: tuple[str, ...] = ()
    """The only accelerators; none listed means any."""
    families: tuple[str, ...] = ()
    """The only model families; none listed means any."""
    shapes: str | None = None
    """Which shapes it takes, in words."""
    static_only: bool = False
    needs_half: bool = False
    several_instances: bool = False
    too_large_only: bool = False
    """Whether it serves models that do not fit one accelerator, and no others."""
    excludes: str | None = None
    instance_types: tuple[str, ...] = ()
    """Where it runs, if not on the present instance; the smallest first."""
    price_factor: Range | None = None
    """What an hour costs, as a multiple of the present price."""
    slower: Range | None = None
    """How many times as long a run takes."""
    reached: Range | None = None
    """The share of a data sheet's ratio that is reached."""
    trees: str | None = None
    """The framework of trees that it is a lever of."""
    instances_factor: int = 1


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """From when on something counts."""

    enable_speedup: float
    off_speedup: float
    compiler_minutes: float
    usd_per_engineer_hour: Range
    epoch_of_a_run: Range
    price_elsewhere: Range
    bottleneck_share: Range
    other_share: Range


@dataclass(frozen=True, kw_only=True)
class Peak:
    """What a data sheet says of an accelerator."""

    tflops: float
    """Dense, in 16 bits."""
    gigabytes_per_second: float


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The whole table."""

    date: str
    thresholds: Thresholds
    considerations: tuple[Consideration, ...]
    """The weightiest first."""
    details: tuple[Consideration, ...]
    """Questions that decide nothing alone, but narrow a range; ranked after the considerations."""
    options: tuple[Option, ...]
    peaks: Mapping[str, Peak]

    def option(self, name: str) -> Option:
        """The option of that name. Raises KeyError."""
        return next(each for each in self.options if each.name == name)


@cache
def rules() -> Rules:
    """The table, read once."""
    text = files("compilegate.advice").joinpath("rules.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    questions = [
        Consideration(rank=rank, rules=table().bearing_on(each["name"]), **_typed(each))
        for rank, each in enumerate([*raw["considerations"], *raw["details"]], start=1)
    ]
    decisive = len(raw["considerations"])
    return Rules(
        date=raw["date"],
        thresholds=Thresholds(**_typed(raw["thresholds"])),
        considerations=tuple(questions[:decisive]),
        details=tuple(questions[decisive:]),
        options=tuple(Option(**_typed(each)) for each in raw["options"]),
        peaks={name: Peak(**each) for name, each in raw["peaks"].items()},
    )


def _typed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Pairs of numbers as ranges, lists of words as tuples."""
    return {key: _value(each) for key, each in entry.items()}


def _value(each: Any) -> Any:
    if not isinstance(each, list):
        return each
    if each and all(isinstance(item, (int, float)) for item in each):
        return Range(float(each[0]), float(each[1]))
    return tuple(each)
