"""How often is "fast enough" wrong? The gate judges simulated jobs whose true speed-up is known.

    .venv/bin/python benchmarks/gate/gate_speed.py [--quick] [--write FILE.md]

Each experiment has jobs of the baseline and of the candidate on machines that disturb them. At the
end of its training, each job of the candidate takes blocks of both arms' steps in turns, for 5% of
its time. The table has, by disturbance, by the share of a step that these blocks leave out and by
the number of seeds: how often a candidate passes that is exactly as fast as required, how often one
fails that is a little faster, and how often one passes that is clearly faster; each by pairs, as
the gate judges, and by the jobs' own step times alone, as it does without pairs. Rates are in per
cent with 95% Wilson intervals. Every cell has its own random stream, so that the same command
prints the same table again. The full run takes some ten minutes on one core, `--quick` a quarter of
one.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy
from gate_simulation import rate, table
from scipy.signal import lfilter

from compilegate.gate.findings import Outcome
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.speed import ArmSpeed, CompileTimes, PairedJob, Pairs, Runs, judge_speed
from compilegate.gate.verdict import CompileTime, Interval
from compilegate.job.evidence import PairedBlocks

FloatArray = npt.NDArray[np.float64]

REQUIRED = 1.20
A_LITTLE_FASTER, CLEARLY_FASTER = 1.25, 1.40
STEPS = 3000
STEP_SECONDS = 0.01
"""How long a whole step of the candidate takes where nothing disturbs it."""
BLOCK_SECONDS = 0.05
SHARE_OF_TRAINING = 0.05
CONFIDENCE = 0.95
MEMORY = 0.98
"""What an autocorrelated machine keeps of its last step's disturbance."""


@dataclass(frozen=True)
class Machine:
    """What disturbs a job; every job draws its own."""

    jitter: float = 0.02
    """Standard deviation of the logarithm of each step's time, independent of the others."""
    between_jobs: float = 0.03
    """The same of a factor on all of a job's times."""
    drift: float = 0.0
    """Largest change over a job: the logarithm of its last time over its first, up or down."""
    neighbour: float = 1.0
    """How many times as long a step takes while a neighbour is there, which is half of the time."""
    neighbour_seconds: float = 1.0
    """How long it stays, and stays away, on average."""
    wandering: float = 0.0
    """Standard deviation of a logarithm that is autocorrelated from step to step."""
    stalls_per_second: float = 0.0
    stall_seconds: float = 0.2
    """On average; exponentially distributed."""


MACHINES = {
    "quiet": Machine(),
    "drift": Machine(drift=0.4, between_jobs=0.1),
    "neighbour, 1 s": Machine(neighbour=1.6, neighbour_seconds=1.0),
    "neighbour, 10 s": Machine(neighbour=1.6, neighbour_seconds=10.0),
    "neighbour, 100 s": Machine(neighbour=1.6, neighbour_seconds=100.0),
    "autocorrelated": Machine(wandering=0.15),
    "stalls": Machine(stalls_per_second=1.0),
    "all of it": Machine(
        drift=0.3,
        between_jobs=0.1,
        neighbour=1.4,
        neighbour_seconds=5.0,
        wandering=0.1,
        stalls_per_second=0.5,
    ),
}
RESTS = (0.0, 0.2, 0.5)
"""Shares of the candidate's step that the blocks leave out."""
SEEDS = (3, 2)
RESTS_OF_OTHER_SEEDS = (0.2,)


@dataclass
class Tally:
    """Outcomes of the experiments with one true speed-up, by pairs and by jobs alone."""

    by_pairs: Counter[Outcome] = field(default_factory=Counter)
    by_jobs: Counter[Outcome] = field(default_factory=Counter)
    widths: list[tuple[float, float]] = field(default_factory=list)
    """Half of the distance between the bounds, as a share of the estimate: by pairs, by jobs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few experiments: a smoke test")
    parser.add_argument("--write", type=Path, help="write the table to this Markdown file too")
    options = parser.parse_args()
    text = report(10 if options.quick else 400)
    command = f"python benchmarks/gate/gate_speed.py{' --quick' if options.quick else ''}"
    page = (
        "# How often the speed-up is misjudged\n\n"
        f"Made by `{command}` in {time.process_time() / 60:.0f} minutes on one core of "
        f"{platform.system()}\n{platform.machine()}, Python {platform.python_version()}, numpy "
        f"{np.__version__}, scipy {scipy.__version__}.\n\n{text}\n"
    )
    print(page)
    if options.write is not None:
        part = options.write.with_name(f".{options.write.name}.part")
        part.write_text(page, encoding="utf-8")
        part.replace(options.write)


def report(experiments: int) -> str:
    """The table with what it says, for so many experiments in each of its cells."""
    rows = list(_rows(experiments))
    header = (
        "Machine",
        "Rest",
        "Seeds",
        f"at {REQUIRED:.2f}: passes",
        "by jobs alone",
        f"at {A_LITTLE_FASTER:.2f}: fails",
        "by jobs alone",
        f"at {CLEARLY_FASTER:.2f}: passes",
        "by jobs alone",
        "bounds, +/-",
        "by jobs alone",
    )
    told = (
        f"{REQUIRED:.2f} times are required, and bounds are at {CONFIDENCE:.0%}. The first rate\n"
        "is of false passes, the second of false fails, the third of right passes. `Rest` is the\n"
        "share of the candidate's step that the blocks leave out. The bounds are the median over\n"
        f"experiments at {CLEARLY_FASTER:.2f}. A job has {STEPS:,} steps. {experiments:,}\n"
        "experiments for each rate."
    )
    return f"{told}\n\n{table(header, rows)}"


def _rows(experiments: int) -> Iterator[tuple[str, ...]]:
    stream = itertools.count()
    for seeds in SEEDS:
        for name, machine in MACHINES.items():
            for rest in RESTS if seeds == SEEDS[0] else RESTS_OF_OTHER_SEEDS:
                tallies = [
                    judged(machine, speedup, rest, (seeds, experiments), next(stream))
                    for speedup in (REQUIRED, A_LITTLE_FASTER, CLEARLY_FASTER)
                ]
                wanted = (Outcome.PASS, Outcome.FAIL, Outcome.PASS)
                rates = [
                    rate(counts[outcome], experiments)
                    for tally, outcome in zip(tallies, wanted, strict=True)
                    for counts in (tally.by_pairs, tally.by_jobs)
                ]
                widths = np.median(tallies[-1].widths, axis=0)
                shown = [f"{width * 100:.1f}%" for width in widths]
                yield (name, f"{rest:.0%}", f"{seeds}", *rates, *shown)


def judged(
    machine: Machine, speedup: float, rest: float, design: tuple[int, int], stream: int
) -> Tally:
    """Judge experiments whose true speed-up of whole steps is `speedup`; `design` is the number of
    seeds, and that of the experiments."""
    seeds, experiments = design
    generator = np.random.default_rng([stream, experiments])
    guards = {"accuracy": MetricGuard(direction="higher", margin=0.01)}
    settings = GateSettings(metrics=guards, min_speedup=REQUIRED, confidence=CONFIDENCE)
    tally = Tally()
    for _ in range(experiments):
        baseline = [_training(machine, speedup, generator) for _ in range(seeds)]
        jobs = [_candidate_job(machine, speedup, rest, generator) for _ in range(seeds)]
        arms = _arm(baseline), _arm([job.steady_seconds for job in jobs])
        judgement, _ = judge_speed(*arms, settings, CONFIDENCE, Pairs(tuple(jobs)))
        if judgement is None or judgement.by_jobs is None:
            raise ValueError("a simulated arm has too few steps")
        tally.by_pairs[judgement.outcome] += 1
        tally.by_jobs[_outcome(judgement.by_jobs)] += 1
        tally.widths.append((_half_width(judgement.speedup), _half_width(judgement.by_jobs)))
    return tally


def _outcome(speedup: Interval) -> Outcome:
    if speedup.upper < REQUIRED:
        return Outcome.FAIL
    return Outcome.PASS if speedup.lower >= REQUIRED else Outcome.INCONCLUSIVE


def _half_width(speedup: Interval) -> float:
    return (speedup.upper - speedup.lower) / 2.0 / speedup.estimate


def _arm(steady: list[FloatArray]) -> ArmSpeed:
    return ArmSpeed(
        batch_size=32,
        rates=tuple(32.0 * len(seconds) / float(seconds.sum()) for seconds in steady),
        runs=Runs(
            steady_seconds=tuple(steady),
            compilation=CompileTimes(CompileTime(0.0, 0.0, len(steady)), None),
            train_seconds=float(np.mean([seconds.sum() for seconds in steady])),
            steps=STEPS,
        ),
    )


def _training(machine: Machine, times_as_long: float, generator: np.random.Generator) -> FloatArray:
    """Step times of a job whose undisturbed step takes so many times the candidate's."""
    return _disturbed(machine, np.full(STEPS, times_as_long * STEP_SECONDS), generator)


def _candidate_job(
    machine: Machine, speedup: float, rest: float, generator: np.random.Generator
) -> PairedJob:
    """A job of the candidate: its training, then its blocks, on one machine's timeline."""
    own = (1.0 - rest) * STEP_SECONDS
    theirs = (speedup - rest) * STEP_SECONDS
    steps = max(round(BLOCK_SECONDS / own), 1)
    pairs = int(SHARE_OF_TRAINING * STEPS * STEP_SECONDS / (steps * (own + theirs)))
    first = np.arange(pairs) % 2 == 0
    blocks = np.where(first[:, None], [theirs, own], [own, theirs])
    undisturbed = np.concatenate([np.full(STEPS, STEP_SECONDS), np.repeat(blocks.ravel(), steps)])
    seconds = _disturbed(machine, undisturbed, generator)
    means = seconds[STEPS:].reshape(pairs, 2, steps).mean(axis=2)
    return PairedJob(
        blocks=PairedBlocks(
            baseline_seconds=np.where(first, means[:, 0], means[:, 1]),
            candidate_seconds=np.where(first, means[:, 1], means[:, 0]),
            baseline_first=first,
        ),
        steady_seconds=seconds[:STEPS],
        steps_per_block=steps,
        batch_ratio=1.0,
    )


def _disturbed(machine: Machine, seconds: FloatArray, generator: np.random.Generator) -> FloatArray:
    """The times of a job's steps in a row, by what they would take on an idle machine."""
    count = len(seconds)
    logs = machine.jitter * generator.standard_normal(count)
    logs += machine.between_jobs * generator.standard_normal()
    logs += np.linspace(0.0, machine.drift * generator.uniform(-1.0, 1.0), count)
    if machine.wandering:
        innovations = generator.standard_normal(count) * np.sqrt(1.0 - MEMORY**2)
        innovations[0] = generator.standard_normal()
        logs += machine.wandering * lfilter([1.0], [1.0, -MEMORY], innovations)
    if machine.neighbour != 1.0:
        comes_or_goes = generator.random(count) < seconds / machine.neighbour_seconds
        there = (np.cumsum(comes_or_goes) + generator.integers(2)) % 2
        logs += np.log(machine.neighbour) * there
    found: FloatArray = seconds * np.exp(logs)
    if machine.stalls_per_second:
        stalled = generator.random(count) < seconds * machine.stalls_per_second
        found = found + stalled * generator.exponential(machine.stall_seconds, count)
    return found


if __name__ == "__main__":
    main()
