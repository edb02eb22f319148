"""Speed by jobs alone, on machines where jobs stall or have neighbours: the second table of
`gate_adverse`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from gate_adverse_designs import CONFIDENCE

from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.speed import ArmSpeed, CompileTimes, Runs, judge_speed
from compilegate.gate.verdict import CompileTime

FloatArray = npt.NDArray[np.float64]
Generator = np.random.Generator

REQUIRED = 1.20
A_LITTLE_FASTER = 1.40
CLEARLY_FASTER = 1.60
SPEEDUPS = (REQUIRED, A_LITTLE_FASTER, CLEARLY_FASTER)


@dataclass(frozen=True)
class AdverseJobs:
    """One kind of machine, and how many jobs of each arm."""

    name: str
    jobs: int
    found: str = ""
    """The share of false passes that was found when the gate was first held against such."""
    unharmed: float = 0.0
    """The chance that an experiment holds none of the harm."""


def adverse_jobs() -> Iterator[AdverseJobs]:
    """Every row of the table."""
    for jobs in (2, 3, 4, 5):
        yield AdverseJobs("one of five candidate jobs stalls by half", jobs, "32 to 60%", 0.8**jobs)
    for jobs, found in ((2, "7.1%"), (3, ""), (5, "6.8%")):
        yield AdverseJobs("bimodal neighbours", jobs, found)
    for jobs in (2, 3, 5):
        yield AdverseJobs("quiet", jobs)


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


def speed_verdicts(design: AdverseJobs, speedup: float, count: int, stream: int) -> Counter[str]:
    """Outcomes of `count` experiments whose true speed-up is this; `stream` seeds the numbers."""
    generator = np.random.default_rng([stream, count])
    settings = GateSettings(
        metrics={"accuracy": MetricGuard(direction="higher", margin=0.01)}, min_speedup=REQUIRED
    )
    found: Counter[str] = Counter()
    for _ in range(count):
        arms = []
        for candidate, seconds in ((False, 0.01 * speedup), (True, 0.01)):
            factors = _SPEEDS[design.name](generator, design.jobs, candidate)
            factors = factors * generator.lognormal(0.0, 0.02, design.jobs)
            steps = [seconds * each * generator.lognormal(0, 0.02, 300) for each in factors]
            arms.append(_timed(steps))
        _, reason = judge_speed(arms[0], arms[1], settings, CONFIDENCE)
        found[str(reason.outcome)] += 1
    return found


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
