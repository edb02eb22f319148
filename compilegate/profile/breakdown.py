"""Divides a step's time into parts that one can do something about.

What operators compute is told from what the host needs to get them going. An operator that has
next to nothing to compute still takes its microseconds; so much is taken off each operator's own
time, and what a phase lasts beyond the rest is the host's: Python, dispatch, launches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compilegate.job.profiling.record import (
    BACKWARD,
    DATA,
    FORWARD,
    LOADS,
    OTHER,
    PHASES,
    UPDATE,
    DeviceTime,
    Operator,
    PhaseTime,
    Profile,
)

COMPUTING = (FORWARD, BACKWARD, UPDATE)

MATRIX, CONVOLUTION, ELEMENTWISE, COMPILED, LAUNCHES = KINDS = (
    "matrix",
    "convolution",
    "elementwise",
    "compiled",
    "launches",
)
"""What a computing phase does: products of matrices and attention; convolutions; everything that
moves more than it computes; graphs that a compiler made; the host's own work in between."""

_MATRIX = re.compile(
    r"(^|::|_)(mm|addmm|bmm|baddbmm|addmv|addr|mv|dot|matmul|linear|einsum|gemm|mkl\w*linear)$"
    r"|mkldnn_linear|scaled_dot_product|flash|efficient_attention|lstm|gru|rnn|_trilinear"
)
_CONVOLUTION = re.compile(r"conv")
_COMPILED = re.compile(
    r"CompiledFunction|Torch-Compiled|CompiledFxGraph|triton_|inductor|cpp_fused|GraphLowering"
)
_COMMUNICATION = re.compile(r"^(nccl|gloo|c10d|record_param_comms|mpi:|ucc:)", re.IGNORECASE)

LOADER, COPIES, COMMUNICATION, BETWEEN, IDLE = "data", "copies", "communication", "other", "idle"
_HOSTS_PART = 3.0
"""How many times the least that an operator takes is the host's part of any: in a program its code
and its memory are not at hand as in a loop that does nothing else, and most have more to check."""
_UNEXPLAINED = "unexplained"
_SAMPLES = 400
_MOST_PER_CALL = 50e-6
"""Seconds that the host needs at most to get an operator going. Where several threads compute, what
a phase lasts beyond that is their wait for each other, and no work of the host."""


@dataclass(frozen=True)
class Share:
    """Seconds of a step, with the bounds of a 95% interval over the steps."""

    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class Breakdown:
    """A step, part by part. The parts add up to it."""

    step: Share
    loader: Share
    copies: Share
    communication: Share
    computing: Mapping[str, Share]
    """Forward, backward, update: all of it."""
    inside: Mapping[tuple[str, str], float]
    """By computing phase and one of KINDS, seconds."""
    between: Share
    """What the program does besides: between the steps, and before the model is called."""
    idle: Share
    """Nobody computes, and no batch is waited for; or threads wait for each other, on a machine
    that others use as well."""
    unexplained: float
    """The part of that in the computing phases, in seconds, that operators cannot have taken."""
    scattered: float
    """The interval's half-width of the step, as a share of it."""

    def share(self, seconds: float) -> float:
        """As a share of the step."""
        return seconds / self.step.seconds if self.step.seconds else 0.0

    def of_kind(self, kind: str, phases: Sequence[str] = COMPUTING) -> float:
        """Seconds of a kind in these phases."""
        return sum(self.inside[phase, kind] for phase in phases)


def breakdown_of(profile: Profile) -> Breakdown:
    """The parts of the profile's typical step."""
    table = _table(profile.steps)
    medians = _medians(table)
    kernels = _kernels(profile)
    resampled = [_medians(each) for each in _resamples(table)]
    typical = _parts(profile, medians, kernels)
    others = [_parts(profile, each, kernels) for each in resampled]

    def share(name: str) -> Share:
        values = [_named(each, name) for each in others]
        low, high = np.quantile(values, [0.025, 0.975]) if values else (0.0, 0.0)
        middle = _named(typical, name)
        return Share(middle, min(float(low), middle), max(float(high), middle))

    step = share("step")
    return Breakdown(
        step=step,
        loader=share(LOADER),
        copies=share(COPIES),
        communication=share(COMMUNICATION),
        computing={phase: share(phase) for phase in COMPUTING},
        inside={(phase, kind): typical[f"{phase} {kind}"] for phase in COMPUTING for kind in KINDS},
        between=share(BETWEEN),
        idle=share(IDLE),
        unexplained=typical[_UNEXPLAINED],
        scattered=(step.high - step.low) / 2 / step.seconds if step.seconds else 0.0,
    )


_Table = npt.NDArray[np.float64]
"""(steps, phases, 2): seconds, and those of the processor."""
_Medians = Mapping[str, PhaseTime]


def _table(steps: Sequence[Mapping[str, PhaseTime]]) -> _Table:
    return np.array(
        [[(each[phase].seconds, each[phase].processor) for phase in PHASES] for each in steps]
    )


def _medians(table: _Table) -> _Medians:
    return {phase: _typical(phase, table[:, at]) for at, phase in enumerate(PHASES)}


def _typical(phase: str, times: npt.NDArray[np.float64]) -> PhaseTime:
    """The phase in a typical step. What computes is the same in each, but for what disturbs it: its
    median counts. Waits for data come in bursts, as of loaders with workers, and logs every so many
    steps: their mean counts, without the longest tenth of idle times, which others may cause."""
    if phase not in (DATA, OTHER):
        return PhaseTime(*map(float, np.median(times, axis=0)))
    seconds, processor = times[:, 0], times[:, 1]
    idle = np.sort(seconds - processor)
    kept = idle[: max(len(idle) - 1 - len(idle) // _LONGEST, 1)]
    own = float(processor.mean())
    return PhaseTime(max(own + float(kept.mean()), 0.0), own)


_LONGEST = 10


def _resamples(table: _Table) -> Sequence[_Table]:
    draw = np.random.default_rng(0)
    count = len(table)
    return [table[draw.integers(0, count, count)] for _ in range(_SAMPLES if count > 1 else 0)]


def _named(parts: Mapping[str, float], name: str) -> float:
    return parts[name]


def _kernels(profile: Profile) -> Mapping[tuple[str, str], float]:
    """By computing phase and kind, seconds of a step that operators compute."""
    on_device = profile.on_device is not None
    found = {(phase, kind): 0.0 for phase in COMPUTING for kind in KINDS}
    for each in profile.operators:
        if each.phase not in COMPUTING or _COMMUNICATION.match(each.name):
            continue
        own = each.microseconds - _HOSTS_PART * profile.least_microseconds
        taken = each.device_microseconds if on_device else max(own, 0.0)
        found[each.phase, kind_of(each)] += each.calls * taken / 1e6
    return found


def kind_of(operator: Operator) -> str:
    """One of KINDS, by its name."""
    name = operator.name
    if _COMPILED.search(name):
        return COMPILED
    if _CONVOLUTION.search(name):
        return CONVOLUTION
    return MATRIX if _MATRIX.search(name) else ELEMENTWISE


def _parts(
    profile: Profile, medians: _Medians, kernels: Mapping[tuple[str, str], float]
) -> dict[str, float]:
    """Every part by name, for these times of the phases."""
    if profile.on_device is not None:
        return _parts_on_device(profile, profile.on_device, medians, kernels)
    parts = {COPIES: 0.0, COMMUNICATION: 0.0, IDLE: 0.0, _UNEXPLAINED: 0.0}
    calls = _calls(profile)
    talking = _communication(profile)
    loading = _share_that_loads(profile)
    other = medians[OTHER]
    parts[LOADER] = medians[DATA].seconds + other.seconds * loading
    rest = other.seconds * (1 - loading)
    waits = max(other.seconds - other.processor, 0.0) * (1 - loading)
    parts[IDLE] += waits
    parts[BETWEEN] = rest - waits
    for phase in COMPUTING:
        seconds = medians[phase].seconds
        # Other threads compute for it meanwhile, where it has any.
        waits = max(seconds - medians[phase].processor, 0.0) if profile.threads == 1 else 0.0
        busy = seconds - waits
        # Processes that exchange something also wait for the slowest of them.
        together = profile.processes > 1 and talking[phase] > 0
        talks = min(max(talking[phase], waits if together else 0.0), seconds)
        parts[COMMUNICATION] += talks
        parts[IDLE] += max(waits - talks, 0.0)
        most = sum(kernels[phase, kind] for kind in KINDS) + calls[phase] * _MOST_PER_CALL
        computing = max(seconds - max(waits, talks), 0.0)
        beyond = max(computing - most, 0.0) if profile.threads > 1 else 0.0
        parts[_UNEXPLAINED] += beyond
        parts[COMMUNICATION if together else IDLE] += beyond
        parts[phase] = computing - beyond
        _divide(parts, phase, min(busy, parts[phase]), kernels)
    parts["step"] = sum(parts[name] for name in _ADDED)
    return parts


_ADDED = (LOADER, COPIES, COMMUNICATION, *COMPUTING, BETWEEN, IDLE)


def _parts_on_device(
    profile: Profile,
    device: DeviceTime,
    medians: _Medians,
    kernels: Mapping[tuple[str, str], float],
) -> dict[str, float]:
    """A device computes behind the host. Its kernels take what they take; where it idles, the
    host's phase at that moment says for what."""
    step = sum(each.seconds for each in medians.values())
    computed = sum(kernels.values())
    scale = device.busy / computed if computed else 1.0  # two streams compute at once
    idle = max(step - device.busy - device.copies - device.communication, 0.0)
    seen = sum(device.idle_in.values())
    waits = {
        phase: idle * device.idle_in.get(phase, 0.0) / seen if seen else 0.0 for phase in PHASES
    }
    loading = _share_that_loads(profile)
    parts = {
        LOADER: waits[DATA] + waits[OTHER] * loading,
        COPIES: device.copies,
        COMMUNICATION: device.communication,
        BETWEEN: waits[OTHER] * (1 - loading),
        IDLE: 0.0 if seen else idle,
        _UNEXPLAINED: 0.0,
    }
    for phase in COMPUTING:
        own = {kind: kernels[phase, kind] * scale for kind in KINDS}
        parts[phase] = sum(own.values()) + waits[phase]
        own[LAUNCHES] = waits[phase]
        parts.update({f"{phase} {kind}": seconds for kind, seconds in own.items()})
    parts["step"] = sum(parts[name] for name in _ADDED)
    return parts


def _divide(
    parts: dict[str, float],
    phase: str,
    busy: float,
    kernels: Mapping[tuple[str, str], float],
) -> None:
    own = {kind: kernels[phase, kind] for kind in KINDS}
    computed = sum(own.values())
    # Under the profiler operators take longer than they do otherwise; more than all is nothing.
    scale = min(1.0, busy / computed) if computed else 1.0
    own = {kind: seconds * scale for kind, seconds in own.items()}
    own[LAUNCHES] = max(parts[phase] - computed * scale, 0.0)
    parts.update({f"{phase} {kind}": seconds for kind, seconds in own.items()})


def _communication(profile: Profile) -> Mapping[str, float]:
    found = dict.fromkeys(COMPUTING, 0.0)
    for each in profile.operators:
        if each.phase in found and _COMMUNICATION.match(each.name):
            found[each.phase] += each.calls * each.microseconds / 1e6
    return found


def _calls(profile: Profile) -> Mapping[str, float]:
    found = dict.fromkeys(COMPUTING, 0.0)
    for each in profile.operators:
        if each.phase in found:
            found[each.phase] += each.calls
    return found


def _share_that_loads(profile: Profile) -> float:
    """How much of the time that is none of the phases a generator or a data set takes."""
    seen = [each for each in profile.lines if each.phase == OTHER]
    total = sum(each.count for each in seen)
    return sum(each.count for each in seen if each.what == LOADS) / total if total >= _FEWEST else 0


_FEWEST = 5
"""Looks at the program before they say anything of it."""
