"""How fast one arm trained: the steady steps of its jobs, recomputed from their step times.

The speed of a replicate is its samples per second over all its steady steps: the total, not the
median, because stalls and slow steps are paid for too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from compilegate.evidence import Evidence, EvidenceRecord, FloatArray, Steps, steady_steps_of
from compilegate.gate.speed.compile_time import CompileTimes, compile_times

MIN_STEADY_STEPS = 10


@dataclass(frozen=True)
class ArmSpeed:
    """What the replicates of one arm measured."""

    batch_size: int
    rates: tuple[float, ...]
    """Steady-state samples per second of each replicate."""
    steady_seconds: tuple[FloatArray, ...]
    """The steady step times of each replicate."""
    compilation: CompileTimes
    train_seconds: float
    """Mean over the replicates."""
    peak_memory_bytes: int
    steps: int
    """Of the longest replicate."""
    interruptions: int = 0
    """Of all replicates: how often one lost its machine and went on from a checkpoint."""
    lost_seconds: float = 0.0
    """What they cost in all; part of `train_seconds`, and of no steady step."""

    @property
    def rate(self) -> float:
        """Samples per second of the arm: the geometric mean, so that ratios are consistent."""
        return math.exp(float(np.mean(np.log(self.rates))))


def steady_seconds(evidence: Evidence, steps: Steps) -> FloatArray:
    """The step times that count: from `steady_from` on, and not the warm-up after a resumption."""
    return steps.seconds[steady_steps_of(evidence, len(steps.seconds))]


def measure_arm(batch_size: int, records: Sequence[EvidenceRecord]) -> ArmSpeed | None:
    """The speed of one arm; None when a replicate has fewer than MIN_STEADY_STEPS steady steps."""
    measured = []
    for record in records:
        speed, steps = record.evidence.speed, record.steps
        if speed is None or steps is None:
            return None
        seconds = steady_seconds(record.evidence, steps)
        if len(seconds) < MIN_STEADY_STEPS:
            return None
        measured.append((record.evidence, speed, seconds))
    return ArmSpeed(
        batch_size=batch_size,
        rates=tuple(batch_size * len(seconds) / float(seconds.sum()) for _, _, seconds in measured),
        steady_seconds=tuple(seconds for _, _, seconds in measured),
        compilation=compile_times(records),
        train_seconds=_mean(speed.train_seconds for _, speed, _ in measured),
        peak_memory_bytes=max(evidence.peak_memory_bytes for evidence, _, _ in measured),
        steps=max(len(record.steps.loss) for record in records if record.steps is not None),
        interruptions=sum(len(record.evidence.resumed) for record in records),
        lost_seconds=sum(
            each.lost_seconds for record in records for each in record.evidence.resumed
        ),
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
