"""How fast one arm trained, and what its whole runs took.

The speed of a replicate is its samples per second over all its steady steps: the total, not the
median, because stalls and slow steps are paid for too. It is recomputed from the step times; a job
that only prints its metrics has none, and its reported speed is taken as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compilegate.evidence import EvidenceRecord, FloatArray
from compilegate.gate.speed.compile_time import CompileTimes, compile_seconds, compile_times
from compilegate.gate.speed.steady import LEAST_SHARE, steady_seconds
from compilegate.job.names import AVERAGE_SPEED_METRIC, SPEED_METRIC

MIN_STEADY_STEPS = 10


@dataclass(frozen=True)
class Runs:
    """What the whole trainings of one arm took."""

    steady_seconds: tuple[FloatArray, ...]
    """The steady step times of each replicate."""
    compilation: CompileTimes
    train_seconds: float
    """Mean over the replicates."""
    steps: int
    """In the longest replicate."""
    interruptions: int = 0
    """In all replicates: how often one lost its machine and resumed from a checkpoint."""
    lost_seconds: float = 0.0
    """What they cost in all; part of `train_seconds`, and of no steady step."""
    beside_seconds: float = 0.0
    """What a job took beside its training, on average: start, data, evaluation."""
    spent_compiling: float = 0.0
    """Seconds of `train_seconds`: the mean over the replicates, cold and warm ones alike."""


@dataclass(frozen=True)
class ArmSpeed:
    """What the replicates of one arm measured."""

    batch_size: int
    rates: tuple[float, ...]
    """Steady-state samples per second of each replicate."""
    runs: Runs | None
    """None where the jobs only printed their speed."""
    holds_compilation: bool = False
    """Whether a rate is an average with the time to compile in it: the steady one is not lower."""

    @property
    def rate(self) -> float:
        """Samples per second of the arm: the geometric mean, so that ratios are consistent."""
        return math.exp(float(np.mean(np.log(self.rates))))


@dataclass(frozen=True)
class UnknownSpeed:
    """An arm whose speed is not known."""

    why: str
    """In words that follow "a job of the baseline"."""


def measure_arm(batch_size: int, records: Sequence[EvidenceRecord]) -> ArmSpeed | UnknownSpeed:
    """The speed of one arm by its sound records."""
    steps = [record.steps for record in records if record.steps is not None]
    speeds = [record.evidence.speed for record in records if record.evidence.speed is not None]
    if not records or len(steps) < len(records) or len(speeds) < len(records):
        return _reported_speed(batch_size, records)
    seconds = tuple(
        steady_seconds(record.evidence, it) for record, it in zip(records, steps, strict=True)
    )
    if min(map(len, seconds)) < MIN_STEADY_STEPS:
        return UnknownSpeed(f"has fewer than {MIN_STEADY_STEPS} steady steps; train longer")
    if any(len(each) < LEAST_SHARE * len(it.loss) for each, it in zip(seconds, steps, strict=True)):
        return UnknownSpeed(
            "was still warming up in more than half of its steps; train longer, or with fewer "
            "interruptions"
        )
    resumed = [each for record in records for each in record.evidence.resumed]
    return ArmSpeed(
        batch_size=batch_size,
        rates=tuple(batch_size * len(each) / float(each.sum()) for each in seconds),
        runs=Runs(
            steady_seconds=seconds,
            compilation=compile_times(records),
            train_seconds=float(np.mean([speed.train_seconds for speed in speeds])),
            beside_seconds=float(
                np.mean([speed.total_seconds - speed.train_seconds for speed in speeds])
            ),
            spent_compiling=float(np.mean([compile_seconds(record) for record in records])),
            steps=max(len(each.loss) for each in steps),
            interruptions=len(resumed),
            lost_seconds=sum(each.lost_seconds for each in resumed),
        ),
    )


def _reported_speed(batch_size: int, records: Sequence[EvidenceRecord]) -> ArmSpeed | UnknownSpeed:
    metrics = [record.evidence.metrics for record in records]
    known = tuple(
        each[name]
        for each in metrics
        for name in (SPEED_METRIC, AVERAGE_SPEED_METRIC)
        if name in each
    )
    # With one job there are no steps to show how sure its speed is.
    if len(known) < max(len(records), 2):
        return UnknownSpeed("did not report its speed (`speed_metric`)")
    averages = any(SPEED_METRIC not in each for each in metrics)
    return ArmSpeed(batch_size, known, runs=None, holds_compilation=averages)
