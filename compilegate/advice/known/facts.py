"""What is known of one workload: each fact with where it comes from. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from compilegate.advice.ranges import Range
from compilegate.advice.rules import Part

Value = TypeVar("Value")


_CHECKED_AS = {"inductor": "torch-compile"}
"""Names of the check for compilers that arms call otherwise."""


class Standing(StrEnum):
    """How good a fact is."""

    KNOWN = "known"
    ASSUMED = "assumed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Fact(Generic[Value]):
    """A value, and how it is known; without one it is unknown."""

    value: Value | None
    standing: Standing
    source: str
    """Where it comes from, or what is missing; a clause without a full stop."""

    @property
    def known(self) -> bool:
        """Whether a verdict may rest on it."""
        return self.standing is Standing.KNOWN


def known(value: Value, source: str) -> Fact[Value]:
    """A fact that somebody declared or something measured."""
    return Fact(value, Standing.KNOWN, source)


def assumed(value: Value, source: str) -> Fact[Value]:
    """A value taken because nothing better is there; no verdict is confident because of it."""
    return Fact(value, Standing.ASSUMED, source)


def unknown(source: str) -> Fact[Value]:
    """Nothing is known, and nothing is assumed."""
    return Fact(None, Standing.UNKNOWN, source)


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """What a profile found of a step."""

    parts: Mapping[Part, Range]
    """Shares of the step."""
    hardware: str
    """Where it was taken, in words."""

    @property
    def largest(self) -> Part:
        """The part that takes the most."""
        return max(self.parts, key=lambda part: self.parts[part].middle)

    def taken_on(self, accelerator: str | None) -> bool:
        """Whether that is the accelerator that the workload trains on."""
        return accelerator is not None and accelerator in re.split(r"[\s,()-]+", self.hardware)


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """What `compilegate check` found in the workload's own script."""

    rule: str
    severity: str
    """`error`, `warning` or `note`."""
    place: str
    """File, line and column, from the workload's folder."""
    message: str
    fix: str
    compilers: tuple[str, ...]
    """In whose way it stands, by the names of the check."""

    @property
    def sentence(self) -> str:
        """What it is and where, without a full stop."""
        return f"{self.place}: {self.message} [{self.rule}]"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One workload, as far as it is known."""

    workload: str
    description: str
    framework: Fact[str]
    family: Fact[str]
    """The model family: transformer, vision, diffusion, recommender, trees, custom."""
    model: str | None
    """The model's name on the hub; None: the file names none."""
    instance_type: str | None
    """None: this machine."""
    processor: str
    """`cpu`, `gpu` or `neuron`."""
    accelerator: str | None
    accelerators: int
    """On all instances together."""
    instances: int
    bottleneck: Fact[str]
    parts: dict[Part, Range]
    """The share of a step that each part takes."""
    shapes: Fact[str]
    """`static`, `few` or `varying`."""
    hours: Fact[Range]
    """One training job of the baseline."""
    precision: Fact[str]
    sequence_length: int | None
    batch_size: int | None
    runs_per_week: Fact[float]
    usd_per_hour: Fact[float]
    """One instance."""
    epochs: Fact[int]
    resumes: Fact[bool]
    too_large: Fact[bool]
    """Whether the model does not fit one accelerator."""
    spot: bool
    tree_method: str | None
    engineer_hours: float | None
    """None: each option's own range is assumed."""
    usd_per_engineer_hour: float | None
    compilers: tuple[str, ...]
    """What arms of the file already have, the baseline's left out."""
    obstacles: tuple[Obstacle, ...] = ()
    """What stands in the workload's own script, the gravest first."""

    def obstacles_of(self, compiler: str | None) -> tuple[Obstacle, ...]:
        """Those in the way of a compiler, by its name in arms."""
        name = _CHECKED_AS.get(compiler or "", compiler)
        return tuple(each for each in self.obstacles if name in each.compilers)

    @property
    def usd_per_run_hour(self) -> float | None:
        """What all instances of a job cost in an hour; None: the price is not known."""
        price = self.usd_per_hour.value
        return None if price is None else price * self.instances

    @property
    def hardware(self) -> str:
        """The machines, in words."""
        return f"{self.instances} x {self.instance_type}" if self.instance_type else "this machine"
