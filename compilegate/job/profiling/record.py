"""What a profiled process writes down, as types; `compilegate.diagnose` says what follows. Times
are seconds of one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from compilegate.job.evidence.record import PaddingRecord
from compilegate.job.slowdowns import Place

PROFILE_SCHEMA = 4

Part = Literal["computing", "update"]
COMPUTING: Part = "computing"
UPDATE: Part = "update"
PARTS: tuple[Part, ...] = (COMPUTING, UPDATE)
"""What operators belong to: the forward and the backward pass, or the optimizer's step."""
HOST = "cpu"  # the device of a program that computes where it runs


@dataclass(frozen=True)
class StepTime:
    """A plain step, by the job's clock."""

    seconds: float
    waited: float  # for its batch, out of these


@dataclass(frozen=True)
class Operator:
    """All calls of one operator in one part of a typical profiled step."""

    part: Part
    name: str
    calls: float
    seconds: float  # on the host, without the operators that it calls
    device_seconds: float = 0.0  # what its kernels took on the device


@dataclass(frozen=True)
class ProfiledTime:
    """A typical step under torch.profiler, which slows small operators down."""

    seconds: float
    communication: float  # between processes, with nothing computed beside it
    copies: float  # between host and device, with nothing else beside them
    outside: float  # no operator ran for a millisecond or more, and no batch was waited for
    computing: float  # the rest in the forward and the backward pass, with no operator running
    update: float  # the same of the optimizer's step


@dataclass(frozen=True)
class Graphs:
    count: int
    breaks: tuple[Place, ...]
    recompilations: tuple[Place, ...]


@dataclass(frozen=True)
class Profile:
    program: str
    arm: str | None
    compiler: str
    device: str
    hardware: str  # what the device is, in words
    torch: str
    processes: int
    batch_size: int | None
    warm_up: int  # steps before the plain ones
    steps: tuple[StepTime, ...]  # the plain ones
    profiled_steps: int
    profiled: ProfiledTime
    operators: tuple[Operator, ...]
    least_seconds: float  # an operator that computes next to nothing, on the host, profiled
    synchronisations: tuple[Place, ...]
    """Where the host asked for a value that the device computes, in the profiled steps."""
    shapes: tuple[int, ...]
    """For each profiled step the number of its shapes, from 0 in the order of their first step."""
    graphs: Graphs | None  # None for a program that torch does not compile
    trace: str  # the file beside this one that Perfetto opens
    padding: PaddingRecord | None = None  # where the program says what padding costs
    schema: int = PROFILE_SCHEMA
