"""What a profiled process writes down, as types. The standard library is enough to read it.

It holds what was seen and counted. What follows from it is for `compilegate.profile` to say.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

PROFILE_SCHEMA = 1

DATA, FORWARD, BACKWARD, UPDATE, OTHER = PHASES = (
    "data",
    "forward",
    "backward",
    "update",
    "other",
)
"""What the thread of a step does at any moment: it waits for its batch; computes the loss; computes
gradients; changes the weights; does anything else, between the steps or before the model is
called."""

LOADS, COMPUTES = "loads", "computes"
"""Whether a line of the program makes a batch, as a generator or a data set does, or anything
else."""

HOST = "cpu"
"""The device of a program that computes where it runs."""


@dataclass(frozen=True)
class PhaseTime:
    """What a phase took in one step."""

    seconds: float
    """By the clock on the wall, without the time in which other processes had the processor."""
    processor: float
    """In which the step's own thread computed."""


@dataclass(frozen=True)
class Operator:
    """All calls of one operator with the same shapes in one phase of the profiled steps."""

    phase: str
    name: str
    shapes: str
    calls: float
    """A step."""
    microseconds: float
    """The median of its own time on the host, without the operators that it calls."""
    device_microseconds: float = 0.0
    """What the kernels of a call took on the device."""


@dataclass(frozen=True)
class DeviceTime:
    """A device's share in the profiled steps, in seconds a step; None where the host computes."""

    step: float
    busy: float
    """In which a kernel ran; copies and communication count apart."""
    copies: float
    communication: float
    idle_in: Mapping[str, float]
    """By the phase that the host was in meanwhile, where nothing ran."""


@dataclass(frozen=True)
class Line:
    """A line of somebody's program, and how often something happened there."""

    where: str
    """``train.py:42``"""
    phase: str
    what: str
    count: int
    seconds: float = 0.0


@dataclass(frozen=True)
class Break:
    """A place where torch leaves the graph that it captures, or compiles one anew."""

    where: str
    reason: str
    count: int


@dataclass(frozen=True)
class Captured:
    """What torch made of the steps when it captured or compiled them."""

    steps: int
    """So many."""
    graphs: int
    breaks: Tuple[Break, ...]
    recompilations: Tuple[Break, ...]
    by: str
    """``compiler``: the job's own; ``capture``: torch's capture alone, after the measured steps."""
    obstacle: Optional[str] = None
    """Why nothing could be captured, in one sentence; None when it could."""


@dataclass(frozen=True)
class Shapes:
    """What the model was called with."""

    by_step: Tuple[int, ...]
    """For each step that was seen, warm-up included, the number of its shapes."""
    names: Tuple[str, ...]
    """The shapes by number, in the order of their first step; of very many, some."""


@dataclass(frozen=True)
class Lengths:
    """How long the examples of batches are, and to how much they were filled up."""

    by: str
    """``mask``: an attention mask says so. ``filling``: rows end in one repeated number.
    ``shape``: nothing says so, and batches have different lengths."""
    real: Tuple[int, ...]
    """The length of each example, in the order they came."""
    padded: Tuple[int, ...]
    """What each was filled up to."""
    batch: Tuple[int, ...]
    """The number of the call of the model that each was in."""


@dataclass(frozen=True)
class Memory:
    """Bytes of the device that computes, or of what torch allocates on the host."""

    weights: int
    gradients: int
    optimizer: int
    highest_in: Mapping[str, int]
    """By phase, the most that was allocated beyond what a step began with."""
    peak: Optional[int]
    """The most that the device held, or the process."""


@dataclass(frozen=True)
class Profile:
    """One profiled process."""

    program: str
    arm: Optional[str]
    compiler: str
    device: str
    hardware: str
    """What the device is, in words."""
    torch: str
    threads: int
    processes: int
    batch_size: Optional[int]
    steps: Tuple[Mapping[str, PhaseTime], ...]
    """The plain steps, by phase."""
    profiled: Tuple[Mapping[str, PhaseTime], ...]
    """Those under torch.profiler, which slows them down."""
    warm_up: int
    """Steps before both."""
    looked_at: int
    """Steps between both, in which lines were looked at."""
    operators: Tuple[Operator, ...]
    least_microseconds: float
    """Own time on the host of an operator that has next to nothing to compute, under the
    profiler."""
    on_device: Optional[DeviceTime]
    synchronisations: Tuple[Line, ...]
    """Where the host asked for a value that the device computes, in the steps looked at."""
    lines: Tuple[Line, ...]
    """The program's own line at moments of these steps, most frequent first."""
    captured: Optional[Captured]
    shapes: Shapes
    lengths: Optional[Lengths]
    memory: Optional[Memory]
    trace: Optional[str]
    """The file beside this one that Perfetto opens."""
    notes: Tuple[str, ...] = ()
    schema: int = PROFILE_SCHEMA
    environment: Mapping[str, Any] = field(default_factory=dict)


def document_of(profile: Profile) -> Dict[str, Any]:
    """As JSON has it."""
    return asdict(profile)
