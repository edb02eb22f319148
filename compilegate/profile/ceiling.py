"""The most that each compiler could save, by Amdahl's law.

A compiler does not touch the wait for data, copies, communication, or what the program does beside
its steps. Of what it compiles, it can spare the host its work in between, and it can fuse what
moves more than it computes. Both count as gone altogether: nothing compiled is faster than that.
Products of matrices stay as they are, since a library computes them either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compilegate.job.profiling.record import BACKWARD, FORWARD
from compilegate.profile.breakdown import (
    COMPUTING,
    CONVOLUTION,
    ELEMENTWISE,
    LAUNCHES,
    MATRIX,
    Breakdown,
)

MATRIX_MARGIN, CONVOLUTION_MARGIN = 0.1, 0.4
"""What a compiler may save of these after all, in the upper bound: a product's epilogue that is
computed along with it, a layout of images that convolutions take better."""
_TICK = 1e-9
"""Seconds. No clock here tells less apart, and nothing is grown in proportion to it."""
_GAUGE = 0.1
"""How far the division of a phase into work and launches may be off, in the upper bound: the
profiler that it comes from slows small operators more than large ones."""


@dataclass(frozen=True)
class Ceiling:
    """The most that one way to compile could save."""

    compiler: str
    covers: str
    """What it takes on, in words."""
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


_BOTH = (FORWARD, BACKWARD)
_FUSES = (LAUNCHES, ELEMENTWISE)


def ceilings_of(parts: Breakdown, *, device: str, shapes: int, varies: bool) -> list[Ceiling]:
    """One for each way to compile the steps. `varies`: their shapes keep changing."""
    static = (
        f"the steps had {shapes} shapes, each a graph of its own to compile: give them one first"
        if varies
        else None
    )
    dynamic = (
        f"the steps had {shapes} shapes: say dynamic = true, and expect less" if varies else None
    )
    found = [
        _ceiling(parts, "torch-compile", ("forward and backward", _BOTH, _FUSES), dynamic),
        _ceiling(
            parts,
            "torch-compile with the update",
            ("forward, backward and a compiled optimizer", COMPUTING, _FUSES),
            dynamic,
        ),
        _ceiling(
            parts,
            "xla, training-compiler, neuron",
            ("the whole step as one graph", COMPUTING, _FUSES),
            static,
        ),
    ]
    if device != "cpu":
        found.insert(
            2,
            _ceiling(
                parts,
                "CUDA graphs alone",
                ("the launches of forward and backward", _BOTH, (LAUNCHES,)),
                static,
            ),
        )
    return found


def _ceiling(
    parts: Breakdown,
    compiler: str,
    takes: tuple[str, Sequence[str], Sequence[str]],
    caveat: str | None,
) -> Ceiling:
    """`takes`: what it takes on in words, the phases of that, and what it spares in them."""
    covers, phases, kinds = takes
    spared = sum(parts.of_kind(kind, phases) for kind in kinds)
    computing = sum(parts.computing[phase].seconds for phase in phases)
    margin = _GAUGE * computing
    if ELEMENTWISE in kinds:
        margin += MATRIX_MARGIN * parts.of_kind(MATRIX, phases)
        margin += CONVOLUTION_MARGIN * parts.of_kind(CONVOLUTION, phases)
    disturbed = max(parts.unexplained, parts.idle.seconds - parts.idle.low)
    fixed = parts.step.seconds - computing - disturbed
    # A step that scatters may have phases of another size than the typical one.
    widest = sum(parts.computing[phase].high for phase in phases)
    narrowest = max(fixed - (parts.step.seconds - parts.step.low), 0.5 * fixed)
    grown = (spared + margin) * (widest / computing if computing > _TICK else 1.0)
    rest = max(widest - grown, 0.0) + narrowest
    high = grown / (grown + rest) if grown else 0.0
    saved = parts.share(spared)
    return Ceiling(compiler, covers, saved, max(high, saved), caveat)
