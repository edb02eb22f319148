"""Speed by jobs alone, on machines where jobs stall or have neighbours: the second table of
`gate_adverse`."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
from gate_kept import KEPT
from gate_simulation import rate, table

from compilegate.gate.judgements import CompileTime
from compilegate.gate.reasons import Outcome
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.speed.arm_speed import ArmSpeed, Runs
from compilegate.gate.speed.compile_time import CompileTimes
from compilegate.gate.speed.judgement import judge_speed

FloatArray = npt.NDArray[np.float64]
Generator = np.random.Generator

CONFIDENCE = 0.95
REQUIRED = 1.20
CLEARLY_FASTER = 1.60


def adverse_speeds(count: int, stream: Iterator[int], only: str = "") -> str:
    """The table of speed by jobs alone, without steps taken in turns."""
    rows = []
    for name, jobs in itertools.product(_SPEEDS, (2, 3, 5)):
        number = next(stream)
        if only and only not in name:
            continue
        rates = []
        for speedup in (REQUIRED, CLEARLY_FASTER):
            key = f"{name}, {jobs} jobs, {speedup}, {count}, {number}"
            passes = KEPT.counts(key, partial(_speed_passes, name, jobs, speedup, count, number))
            rates += [rate(passes[kind], count) for kind in ("gate", "without")]
        rows.append((name, f"{jobs}", *rates))
    header = (
        "Jobs",
        "Jobs of an arm",
        f"at {REQUIRED:.2f}: passes",
        "without",
        f"at {CLEARLY_FASTER:.2f}: passes",
        "without",
    )
    return table(header, rows)


def _stalled(generator: Generator, jobs: int, candidate: bool) -> FloatArray:
    """Times as long as undisturbed: one of five of the candidate's jobs takes half as long again.
    On average as long."""
    if not candidate:
        return np.ones(jobs)
    return (1.0 + 0.5 * (generator.random(jobs) < 0.2)) / 1.1


def _bimodal(generator: Generator, jobs: int, candidate: bool) -> FloatArray:
    """Half of all jobs have a neighbour."""
    return np.where(generator.random(jobs) < 0.5, 1.6, 1.0)


_SPEEDS: dict[str, Callable[[Generator, int, bool], FloatArray]] = {
    "one of five candidate jobs stalls by half": _stalled,
    "bimodal neighbours": _bimodal,
    "quiet": lambda generator, jobs, candidate: np.ones(jobs),
}


def _speed_passes(name: str, jobs: int, speedup: float, count: int, stream: int) -> Counter[str]:
    """How many pass, by the gate and by the jobs' own bounds."""
    generator = np.random.default_rng([stream, count])
    settings = GateSettings(
        metrics={"accuracy": MetricGuard(direction="higher", margin=0.01)}, min_speedup=REQUIRED
    )
    passes: Counter[str] = Counter()
    for _ in range(count):
        arms = []
        for candidate, seconds in ((False, 0.01 * speedup), (True, 0.01)):
            factors = _SPEEDS[name](generator, jobs, candidate)
            factors = factors * generator.lognormal(0.0, 0.02, jobs)
            steps = [seconds * each * generator.lognormal(0, 0.02, 300) for each in factors]
            arms.append(_timed(steps))
        judgement, _ = judge_speed(arms[0], arms[1], settings, CONFIDENCE)
        if judgement is None or judgement.by_jobs is None:
            raise ValueError("a simulated arm has too few steps")
        passes["gate"] += judgement.outcome is Outcome.PASS
        passes["without"] += judgement.by_jobs.lower >= REQUIRED
    return passes


def _timed(steady: list[FloatArray]) -> ArmSpeed:
    return ArmSpeed(
        batch_size=32,
        rates=tuple(32.0 * len(seconds) / float(seconds.sum()) for seconds in steady),
        runs=Runs(
            steady_seconds=tuple(steady),
            compilation=CompileTimes(CompileTime(0.0, 0.0, len(steady)), None),
            train_seconds=float(np.mean([seconds.sum() for seconds in steady])),
            steps=len(steady[0]),
        ),
    )
