"""The speed-up of the steady state, with an interval, and the seeds that would settle it.

Training jobs are the unit of replication: steps of one job share its machine, and their number says
nothing about the next machine. So the interval is Welch's, over the logarithms of the jobs' speeds.
With one job an arm there is no such spread, and a moving-block bootstrap over the steps (Kuensch
1989) stands in: it covers that one run only, and the verdict says so.

Two to five jobs need not show what happens to one in five: a third of the experiments with five
jobs meet none of those, and 30 to 60 of 100 candidates passed that were as fast as required but for
such stalls. Where no steps were taken in turns, the lower bound counts one imaginary job more that
takes half as long again (`surviving_a_stall`), and one in five where that is more, up to the 14
jobs that would show it: 13% lower at two jobs, 10% at three, 8% from four on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from compilegate.evidence import FloatArray
from compilegate.gate.judgements import Interval
from compilegate.gate.speed.arm_speed import ArmSpeed
from compilegate.gate.statistics.sample_size import MOST_SEEDS, POWER

RESAMPLES = 2000
STALLED = 1.5
"""How many times as long an imaginary job takes that stalls."""
STALLED_SHARE = 0.2
"""The share of stalled jobs that no jobs need show, until there are SHOWING_STALLS of them."""
SHOWING_STALLS = 14
MOST_LOGARITHM = 700.0
"""The logarithm of the largest finite ratio: with two very different jobs a bound is as
good as infinite."""


def speedup_interval(
    baseline: ArmSpeed, candidate: ArmSpeed, confidence: float
) -> tuple[Interval, bool]:
    """The ratio of samples per second with one-sided bounds; True when it covers one run only."""
    if min(len(baseline.rates), len(candidate.rates)) < 2:
        return _bootstrap_over_steps(baseline, candidate, confidence), True
    return _welch(np.log(baseline.rates), np.log(candidate.rates), confidence), False


def surviving_a_stall(speedup: Interval, jobs: int) -> Interval:
    """The same interval, had one job more of the candidate, besides so many, stalled."""
    share = max(1.0 / (jobs + 1), 0.0 if jobs >= SHOWING_STALLS else STALLED_SHARE)
    return replace(speedup, lower=speedup.lower / STALLED**share)


def seeds_to_settle(
    baseline: ArmSpeed, candidate: ArmSpeed, min_speedup: float, confidence: float
) -> int | None:
    """Seeds of each arm at which the bounds would lie to one side of `min_speedup`, in eight of ten
    experiments (`sample_size_needed`).

    The estimate and the jobs' spread are taken as they are. None where that spread is not known,
    or MOST_SEEDS would not do.
    """
    logs = [np.log(arm.rates) for arm in (baseline, candidate)]
    if min(len(rates) for rates in logs) < 2:
        return None
    variances = [float(rates.var(ddof=1)) for rates in logs]
    distance = abs(math.log(candidate.rate / baseline.rate / min_speedup))
    for seeds in range(max(len(rates) for rates in logs) + 1, MOST_SEEDS + 1):
        needed = sum(
            _welch_half_width(variances, [seeds, seeds], level) for level in (confidence, POWER)
        )
        if needed < distance:
            return seeds
    return None


def _welch(baseline: FloatArray, candidate: FloatArray, confidence: float) -> Interval:
    difference = float(candidate.mean() - baseline.mean())
    half_width = _welch_half_width(
        [float(rates.var(ddof=1)) for rates in (baseline, candidate)],
        [len(rates) for rates in (baseline, candidate)],
        confidence,
    )
    bounds = (difference, difference - half_width, difference + half_width)
    return Interval(*(math.exp(min(bound, MOST_LOGARITHM)) for bound in bounds))


def _welch_half_width(
    variances: Sequence[float], counts: Sequence[int], confidence: float
) -> float:
    parts = [variance / count for variance, count in zip(variances, counts, strict=True)]
    total = sum(parts)
    if total == 0.0:
        return 0.0
    freedom = 1.0 / sum(
        (part / total) ** 2 / (count - 1) for part, count in zip(parts, counts, strict=True)
    )
    return float(stdtrit(freedom, confidence)) * math.sqrt(total)


def _bootstrap_over_steps(baseline: ArmSpeed, candidate: ArmSpeed, confidence: float) -> Interval:
    # A fixed generator: the same evidence must give the same verdict.
    generator = np.random.default_rng(0)
    before, after = (
        _resampled_means(arm.runs.steady_seconds[0], generator)
        for arm in (baseline, candidate)
        if arm.runs is not None
    )
    ratios = before / after * (candidate.batch_size / baseline.batch_size)
    lower, upper = np.quantile(ratios, [1.0 - confidence, confidence])
    return Interval(candidate.rate / baseline.rate, float(lower), float(upper))


def _resampled_means(seconds: FloatArray, generator: np.random.Generator) -> FloatArray:
    length = math.ceil(len(seconds) ** (1 / 3))
    sums = np.concatenate([[0.0], np.cumsum(seconds)])
    block_means = (sums[length:] - sums[:-length]) / length
    blocks = math.ceil(len(seconds) / length)
    return np.array(
        [
            block_means[generator.integers(0, len(block_means), blocks)].mean()
            for _ in range(RESAMPLES)
        ]
    )
