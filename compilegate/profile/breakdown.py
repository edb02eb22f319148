"""Divides a step's time into parts that one can do something about, and the most that each compiler
could save of it.

What operators compute is separated from what the host needs to get them going. An operator that has
next to nothing to compute still takes its microseconds; so much is taken off each operator's time,
and what a step lasts beyond the rest is the host's: Python, dispatch, launches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compilegate.job.profiling.record import COMPUTING, HOST, PARTS, UPDATE, Operator, Profile

MATRIX, CONVOLUTION, ELEMENTWISE, COMPILED, LAUNCHES = KINDS = (
    "matrix",
    "convolution",
    "elementwise",
    "compiled",
    "launches",
)
"""What a part does: products of matrices and attention; convolutions; everything that moves more
than it computes; graphs that a compiler made; the host's own work in between."""

_BY_NAME = (
    (
        COMPILED,
        re.compile(
            r"CompiledFunction|Torch-Compiled|CompiledFxGraph|triton_|inductor|cpp_fused"
            r"|GraphLowering"
        ),
    ),
    (CONVOLUTION, re.compile(r"conv")),
    (
        MATRIX,
        re.compile(
            r"(^|::|_)(mm|addmm|bmm|baddbmm|addmv|addr|mv|dot|matmul|linear|einsum|gemm"
            r"|mkl\w*linear)$|mkldnn_linear|scaled_dot_product|flash|efficient_attention|lstm|gru"
            r"|rnn|_trilinear"
        ),
    ),
)

_NODE = re.compile(r"^autograd::|Backward\d*$")
"""Autograd's own work on the host, between the operators that compute."""

DATA, COPIES, COMMUNICATION, BETWEEN = "data", "copies", "communication", "between steps"
_HOSTS_PART = 3.0
"""How many times the least that an operator takes is the host's part of any: in a program its code
and its memory are not at hand as in a loop that does nothing else, and most have more to check."""
_SAMPLES = 400


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
    parts: Mapping[str, Share]
    """Waiting for data, copies, forward and backward pass, update, communication, and what the
    program does besides."""
    inside: Mapping[tuple[str, str], float]
    """By part that computes and one of KINDS, seconds."""

    @property
    def scattered(self) -> float:
        """The interval's half-width of the step, as a share of it."""
        return self.share((self.step.high - self.step.low) / 2)

    def share(self, seconds: float) -> float:
        """As a share of the step."""
        return seconds / self.step.seconds if self.step.seconds else 0.0

    def of_part(self, part: str) -> float:
        """A part, as a share of the step."""
        return self.share(self.parts[part].seconds)

    def of_kind(self, kind: str, parts: Sequence[str] = PARTS) -> float:
        """Seconds of a kind in these parts."""
        return sum(self.inside[part, kind] for part in parts)


def breakdown_of(profile: Profile) -> Breakdown:
    """The parts of the profile's typical step."""
    kernels = _kernels(profile)
    # What computes is the same in each step, but for what disturbs it: its median counts. Waits for
    # data come in bursts, as of loaders with workers: their mean counts.
    waited = np.array([each.waited for each in profile.steps])
    rest = np.array([max(each.seconds - each.waited, 0.0) for each in profile.steps])
    draw = np.random.default_rng(0)
    count = len(rest)
    samples = draw.integers(0, count, (_SAMPLES if count > 1 else 1, count))
    typical = _divided(profile, kernels, float(np.median(rest)), float(waited.mean()))
    others = [
        _divided(profile, kernels, each, wait)
        for each, wait in zip(
            np.median(rest[samples], axis=1).tolist(),
            waited[samples].mean(axis=1).tolist(),
            strict=True,
        )
    ]

    def share(names: Sequence[str | tuple[str, str]]) -> Share:
        middle = sum(typical[name] for name in names)
        low, high = np.quantile(
            [sum(each[name] for name in names) for each in others], [0.025, 0.975]
        )
        return Share(middle, min(float(low), middle), max(float(high), middle))

    members: dict[str, Sequence[str | tuple[str, str]]] = {
        DATA: [DATA],
        COPIES: [COPIES],
        **{part: [(part, kind) for kind in KINDS] for part in PARTS},
        COMMUNICATION: [COMMUNICATION],
        BETWEEN: [BETWEEN],
    }
    return Breakdown(
        step=share([name for each in members.values() for name in each]),
        parts={part: share(names) for part, names in members.items()},
        inside={(part, kind): typical[part, kind] for part in PARTS for kind in KINDS},
    )


def _kernels(profile: Profile) -> dict[tuple[str, str], float]:
    """By part and kind, seconds of a step that operators compute."""
    found: dict[tuple[str, str], float] = {(part, kind): 0.0 for part in PARTS for kind in KINDS}
    for each in profile.operators:
        kind = kind_of(each)
        own = each.seconds - _HOSTS_PART * each.calls * profile.least_seconds
        if _NODE.search(each.name) and kind != COMPILED:
            own = 0.0
        found[each.part, kind] += max(own, 0.0) if profile.device == HOST else each.device_seconds
    return found


def kind_of(operator: Operator) -> str:
    """One of KINDS, by its name."""
    return next((kind for kind, name in _BY_NAME if name.search(operator.name)), ELEMENTWISE)


def _divided(
    profile: Profile, kernels: Mapping[tuple[str, str], float], rest: float, waited: float
) -> dict[str | tuple[str, str], float]:
    """Every part by name, for a step that takes `rest` seconds beyond its wait for data."""
    seen = profile.profiled
    parts: dict[str | tuple[str, str], float] = {
        **kernels,
        COMMUNICATION: seen.communication,
        COPIES: seen.copies,
        BETWEEN: seen.outside,
    }
    taken = sum(parts.values())
    # Under the profiler operators take longer than they do otherwise; more than all is nothing.
    scale = min(1.0, rest / taken) if taken else 1.0
    parts = {name: seconds * scale for name, seconds in parts.items()}
    launches = max(rest - taken * scale, 0.0)
    weights = {
        part: max(
            getattr(seen, part)
            - (sum(kernels[part, kind] for kind in KINDS) if profile.device == HOST else 0.0),
            0.0,
        )
        for part in PARTS
    }
    whole = sum(weights.values())
    of_update = weights[UPDATE] / whole if whole else 0.0
    parts[UPDATE, LAUNCHES] += launches * of_update
    parts[COMPUTING, LAUNCHES] += launches * (1 - of_update)
    return {**parts, DATA: waited}


MATRIX_MARGIN, CONVOLUTION_MARGIN = 0.1, 0.4
"""What a compiler may save of these after all, in the upper bound: a product's epilogue that is
computed along with it, a layout of images that convolutions take better."""
_GAUGE = 0.1
"""How far the division of a part into work and launches may be off, in the upper bound: the
profiler that it comes from slows small operators more than large ones."""


@dataclass(frozen=True)
class Ceiling:
    """The most that one way to compile could save, by Amdahl's law.

    A compiler does not touch the wait for data, copies, communication, or what the program does
    beside its steps. Of what it compiles, it can spare the host its work in between, and it can
    fuse what moves more than it computes. Both count as gone altogether: nothing compiled is faster
    than that. Products of matrices stay as they are, since a library computes them either way.
    """

    compiler: str
    saved: float
    """Share of a step's time, at most."""
    high: float
    """The upper bound of that, with what is not known well."""
    caveat: str | None = None

    @property
    def speedup(self) -> float:
        """How many times as fast, at most."""
        return 1 / (1 - min(self.saved, 0.99))

    @property
    def speedup_high(self) -> float:
        """The same, with what is not known well."""
        return 1 / (1 - min(self.high, 0.99))


_FUSES = (LAUNCHES, ELEMENTWISE)


def ceilings_of(found: Breakdown, *, device: str, shapes: int, varies: bool) -> Iterator[Ceiling]:
    """One for each way to compile the steps. `varies`: their shapes keep changing."""
    static = f"the steps had {shapes} shapes, each a graph of its own: give them one first"
    dynamic = f"the steps had {shapes} shapes: set dynamic = true, and expect less"
    for compiler, parts, kinds, caveat in (
        ("torch-compile", (COMPUTING,), _FUSES, dynamic),
        ("torch-compile with the update", PARTS, _FUSES, dynamic),
        ("CUDA graphs alone", (COMPUTING,), (LAUNCHES,), static),
        ("xla, training-compiler, neuron", PARTS, _FUSES, static),
    ):
        if kinds == _FUSES or device != HOST:
            saved, high = _saved(found, parts, kinds)
            yield Ceiling(compiler, saved, high, caveat if varies else None)


def _saved(found: Breakdown, parts: Sequence[str], kinds: Sequence[str]) -> tuple[float, float]:
    spared = sum(found.of_kind(kind, parts) for kind in kinds)
    covered = sum(found.parts[part].seconds for part in parts)
    margin = _GAUGE * covered
    if ELEMENTWISE in kinds:
        margin += MATRIX_MARGIN * found.of_kind(MATRIX, parts)
        margin += CONVOLUTION_MARGIN * found.of_kind(CONVOLUTION, parts)
    # In a step that scatters the covered parts may be larger than typical, and the others smaller.
    widest = sum(found.parts[part].high for part in parts)
    fixed = found.step.seconds - covered
    narrowest = max(fixed - (found.step.seconds - found.step.low), 0.5 * fixed, 0.0)
    most = min(spared + margin + widest - covered, widest)
    saved = found.share(spared)
    return saved, max(most / (widest + narrowest) if most > 0 else 0.0, saved)
