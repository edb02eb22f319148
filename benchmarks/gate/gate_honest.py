"""How often is an honest experiment refused? Whole experiments, judged as the pipeline does.

    .venv/bin/python benchmarks/gate/gate_honest.py [--experiments 100] [--keep FOLDER]
                                                    [PART OF A NAME]

Nobody copies, forgets or deceives here: both arms train the same recipe on machines as they are,
with clocks as they are. A candidate's models are as good as the baseline's, and its steps as fast
or half as fast again. What the gate says of bounds is left out, since `gate_adverse` and
`gate_calibration` measure it: counted are the experiments in which a record, an arm or a speed-up
is refused or doubted for another reason, by name.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gate_kept import KEPT
from gate_simulation import rate, table

from compilegate.gate.findings import Outcome
from compilegate.gate.judge import judge
from compilegate.gate.metrics import metric_value
from compilegate.gate.settings import ArmDeclaration, Experiment, GateSettings, MetricGuard
from compilegate.job.evidence import (
    CheckpointRecord,
    CompileCacheRecord,
    CompilerRecord,
    Evidence,
    EvidenceRecord,
    Examples,
    Resumption,
    SpeedRecord,
    Steps,
    column_digests,
)

FloatArray = npt.NDArray[np.float64]
Generator = np.random.Generator

BATCH = 32
ROWS = 600
STEADY_FROM = 6
SPEEDUPS = (1.0, 1.5)
BOUNDS = ("quality.", "speed.below", "speed.not_repaid", "speed.undecided", "speed.busy", "memory.")
"""How the codes of bounds begin, which are measured elsewhere."""


@dataclass(frozen=True)
class Work:
    """One kind of honest experiment. Shares are of a step's time, or of a loss."""

    name: str
    seeds: int = 3
    steps: int = 300
    step_seconds: float = 0.1
    jitter: float = 0.02
    """By which each step differs by itself."""
    between_jobs: float = 0.01
    by_batch: float = 0.0
    """By which batches differ, in both arms alike: long texts take long."""
    few_lengths: bool = False
    """Whether batches are filled up to one of a few lengths."""
    longer: float = 0.0
    """By how much the batches of the end take longer than those of the beginning."""
    throttled: float = 0.0
    """By how much a job's machine becomes slower on the way at most."""
    stalls: float = 0.0
    """The share of steps that take three times as long."""
    neighbour: float = 0.0
    """The chance that a job has a neighbour for a part of it, which costs a quarter."""
    decimals: int = 17
    """The clock's."""
    compiling: float = 5.0
    """Seconds of the first candidate job, and of all where `warm` is false."""
    warm: bool = True
    """Whether the others find the first one's graphs, and take a tenth of it."""
    told_too_short: float = 0.0
    """The share of compiling that a job does not count as such."""
    checkpoint_seconds: float = 0.0
    interrupted: bool = False
    """Whether one job of each arm loses its machine half-way."""
    loss: tuple[float, float] = (1.4, 0.2)
    """At first and in the end."""
    noise: float = 0.1
    """By which a batch's loss differs, as a share of it."""
    same_batches: bool = True
    """Whether the arms see the same batches in one order with one seed."""
    seed_spread: float = 0.05
    """By which the courses of seeds differ, as a share of the loss."""


def works() -> Iterator[Work]:
    """Every row of the table."""
    usual = Work("quiet machine")
    yield from (replace(usual, name=f"{usual.name}, {n} seeds", seeds=n) for n in (2, 3, 10))
    yield replace(usual, name="clock of milliseconds", decimals=3)
    yield replace(usual, name="clock of a tenth of a millisecond", decimals=4)
    yield replace(usual, name="clock of microseconds", decimals=6)
    yield replace(usual, name="very even steps (1 in 10,000)", jitter=1e-4, steps=3000)
    yield replace(usual, name="even steps, batches of few lengths", jitter=3e-4, by_batch=0.3,
                  few_lengths=True, steps=3000)  # fmt: skip
    yield replace(usual, name="steps of 4 ms", step_seconds=0.004, steps=2000, compiling=1.0)
    yield replace(usual, name="steps of 2 s", step_seconds=2.0, steps=100, compiling=60.0)
    yield replace(usual, name="30 steps", steps=30, compiling=1.0)
    yield replace(usual, name="batches of any length", by_batch=0.5)
    yield replace(usual, name="batches sorted by length", longer=0.6, by_batch=0.1)
    for seeds in (2, 3):
        yield replace(usual, name=f"machine that becomes slower, {seeds} seeds", throttled=0.12,
                      seeds=seeds)  # fmt: skip
        yield replace(usual, name=f"light load, {seeds} seeds", jitter=0.1, stalls=0.01,
                      neighbour=0.2, between_jobs=0.03, seeds=seeds)  # fmt: skip
    yield replace(usual, name="all jobs compile for a minute", compiling=60.0, warm=False)
    yield replace(usual, name="the first job compiles for a minute", compiling=60.0)
    yield replace(usual, name="the first of two jobs compiles for five minutes", compiling=300.0,
                  seeds=2)  # fmt: skip
    yield replace(usual, name="half of compiling is not told", compiling=60.0, told_too_short=0.5)
    yield replace(usual, name="checkpoints of 10 s", checkpoint_seconds=10.0)
    yield replace(usual, name="interrupted jobs", interrupted=True)
    for seeds in (2, 3):
        yield replace(usual, name=f"unsteady losses, {seeds} seeds", noise=0.5, seeds=seeds)
        yield replace(usual, name=f"batches in no common order, {seeds} seeds",
                      same_batches=False, noise=0.5, seeds=seeds)  # fmt: skip
        yield replace(usual, name=f"fine-tuning: losses fall by a tenth, {seeds} seeds",
                      loss=(1.0, 0.9), noise=0.3, seeds=seeds)  # fmt: skip
        yield replace(usual, name=f"the same in no common order, {seeds} seeds", loss=(1.0, 0.9),
                      noise=0.3, same_batches=False, seeds=seeds)  # fmt: skip
        yield replace(usual, name=f"seeds that take other courses, {seeds} seeds",
                      seed_spread=0.5, seeds=seeds)  # fmt: skip
    yield replace(usual, name="short fine-tuning, 40 steps", loss=(1.0, 0.9), noise=0.5, steps=40,
                  compiling=1.0)  # fmt: skip


def judged(work: Work, speedup: float, count: int, stream: int) -> Counter[str]:
    """Codes by experiment, passes and refusals among `count`; `stream` seeds the random numbers."""
    generator = np.random.default_rng([stream, count])
    found: Counter[str] = Counter()
    for _ in range(count):
        experiment, records = drawn(work, speedup, generator)
        verdict = judge(experiment, dict(records))
        (candidate,) = verdict.candidates
        codes = {
            str(reason.code)
            for reason in (*candidate.reasons, *verdict.baseline.reasons)
            if reason.outcome is not Outcome.PASS and not str(reason.code).startswith(BOUNDS)
        }
        found["pass"] += candidate.outcome is Outcome.PASS
        found["refused"] += bool(codes)
        found.update(codes)
    return found


def drawn(
    work: Work, speedup: float, generator: Generator
) -> tuple[Experiment, dict[tuple[str, int], EvidenceRecord]]:
    """An experiment as it is declared, and the evidence of its jobs."""
    labels = generator.integers(0, 4, ROWS)
    easy = generator.random(ROWS) < 0.9
    arms = {
        "baseline": _declared("eager"),
        "fast": _declared("inductor"),
    }
    records: dict[tuple[str, int], EvidenceRecord] = {}
    for seed in range(1, work.seeds + 1):
        batches = generator.lognormal(0.0, work.by_batch, work.steps)
        if work.few_lengths:
            batches = np.exp(np.round(np.log(batches) * 10.0) / 10.0)
        batches *= np.linspace(1.0, 1.0 + work.longer, work.steps)
        luck = generator.standard_normal(work.steps)
        course = generator.standard_normal()
        for arm in arms:
            if not work.same_batches:
                luck = generator.standard_normal(work.steps)
            seconds = batches * work.step_seconds / (1.0 if arm == "baseline" else speedup)
            correct = easy ^ (generator.random(ROWS) < 0.004)
            job = _Job(
                arm,
                seed,
                _examples(correct, labels, generator),
                _disturbed(work, seconds, generator),
                _losses(work, luck, course, generator),
            )
            records[arm, seed] = _record(work, job, generator)
    settings = GateSettings(
        metrics={"accuracy": MetricGuard(direction="higher", margin=0.05)}, min_speedup=1.2
    )
    seeds = list(range(1, work.seeds + 1))
    return (
        Experiment(workload="w", baseline="baseline", arms=arms, seeds=seeds, settings=settings),
        records,
    )


def _declared(compiler: str) -> ArmDeclaration:
    return ArmDeclaration(compiler=compiler, batch_size=BATCH, learning_rate=1e-3, precision="fp32")


def _examples(correct: npt.NDArray[np.bool_], labels: FloatArray, generator: Generator) -> Examples:
    sure = generator.uniform(0.5, 0.99, ROWS)
    scores = np.repeat(((1.0 - sure) / 3.0)[:, None], 4, axis=1)
    scores[np.arange(ROWS), np.where(correct, labels, (labels + 1) % 4)] = sure
    losses = -np.log(scores[np.arange(ROWS), labels])
    return Examples(np.arange(ROWS).astype(np.str_), labels, scores, losses)


def _disturbed(work: Work, seconds: FloatArray, generator: Generator) -> FloatArray:
    """What the steps of one job take on its machine, without compilation."""
    count = len(seconds)
    found = seconds * generator.lognormal(0.0, work.jitter, count)
    found *= generator.lognormal(0.0, work.between_jobs)
    found *= np.linspace(1.0, 1.0 + work.throttled * generator.random(), count)
    found *= np.where(generator.random(count) < work.stalls, 3.0, 1.0)
    if generator.random() < work.neighbour:
        begin, end = np.sort(generator.integers(0, count, 2))
        found[begin:end] *= 1.25
    return found


def _losses(work: Work, luck: FloatArray, course: float, generator: Generator) -> FloatArray:
    first, last = work.loss
    falling = np.exp(-5.0 * np.arange(work.steps) / work.steps)
    falling = falling ** np.exp(work.seed_spread * course)
    own = luck + 0.05 * generator.standard_normal(work.steps)  # dropout, rounding
    spread = work.noise
    found: FloatArray = (last + (first - last) * falling) * np.exp(spread * own - spread**2 / 2.0)
    return found


@dataclass(frozen=True)
class _Job:
    """What one job measured, before its record."""

    arm: str
    seed: int
    examples: Examples
    seconds: FloatArray
    losses: FloatArray


def _record(work: Work, job: _Job, generator: Generator) -> EvidenceRecord:
    arm, seed, examples, seconds = job.arm, job.seed, job.examples, job.seconds
    compiled = arm != "baseline"
    is_warm = work.warm and seed > 1
    compiling = 0.0
    if compiled:
        compiling = work.compiling * generator.uniform(0.8, 1.2) * (0.1 if is_warm else 1.0)
    seconds[0] += compiling + 3.0 * work.step_seconds * generator.random()
    resumed: tuple[Resumption, ...] = ()
    if work.interrupted and seed == 1:
        half = work.steps // 2
        again = 0.1 * compiling
        seconds[half] += again
        lost = generator.uniform(30.0, 200.0)
        resumed = (Resumption(half, half + STEADY_FROM, lost + again),)
    seconds = np.round(seconds, work.decimals)
    trained = float(seconds.sum()) + sum(each.lost_seconds for each in resumed)
    trained += work.checkpoint_seconds - sum(0.1 * compiling for _ in resumed)
    evidence = Evidence(
        job=f"{arm}-{seed}", arm=arm, seed=seed,
        recipe={
            "batch_size": BATCH, "learning_rate": 1e-3, "precision": "fp32", "epochs": 3,
            "steps": work.steps,
        },
        compiler=CompilerRecord(
            name="inductor" if compiled else "eager", ran=compiled,
            proof={"unique_graphs": int(compiled)}, graphs=int(compiled),
            compile_seconds=compiling * (1.0 - work.told_too_short),
        ),
        speed=SpeedRecord(
            samples_per_second=BATCH / float(seconds[STEADY_FROM:].mean()),
            steady_from=STEADY_FROM, train_seconds=trained, total_seconds=trained + 20.0,
        ),
        peak_memory_bytes=500_000_000, memory_of="process",
        metrics={"accuracy": metric_value("accuracy", examples)},
        environment={"torch": "2.13.0", "cpu": "a processor", "cores_available": 1},
        checkpoints=CheckpointRecord(3, work.checkpoint_seconds, None, resumed)
        if work.checkpoint_seconds or resumed else None,
        compile_cache=CompileCacheRecord(
            "warm" if is_warm else "cold", "It was found." if is_warm else "There was none.",
            "f" * 64, 2 if is_warm else 0, 0 if is_warm else 2, 570_000, 570_000,
        ) if compiled else None,
    )  # fmt: skip
    steps = Steps(loss=job.losses, seconds=seconds)
    digests = {
        "data": hashlib.sha256(b"data").hexdigest(),
        "model": hashlib.sha256(generator.bytes(8)).hexdigest(),
        **column_digests(steps, examples, None, None),
    }
    return EvidenceRecord(replace(evidence, digests=digests), steps, examples, None)


def page(count: int, only: str) -> str:
    """The table, with `count` experiments per kind and true speed-up."""
    rows = []
    for stream, work in enumerate(works(), start=2000):
        if only not in work.name:
            continue
        equal, faster = (
            KEPT.counts(
                f"{work}, {speedup}, {count}", partial(judged, work, speedup, count, stream)
            )
            for speedup in SPEEDUPS
        )
        codes = sorted({*equal, *faster} - {"pass", "refused"})
        rows.append(
            (
                work.name,
                rate(equal["refused"], count),
                rate(faster["refused"], count),
                rate(faster["pass"], count),
                ", ".join(f"{code} ({equal[code] + faster[code]})" for code in codes),
            )
        )
    return table(
        (
            "Experiments",
            "equal: refused",
            "half as fast again: refused",
            "half as fast again: pass",
            "By (number of experiments)",
        ),
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="keep counts here, and take those that are")
    parser.add_argument("only", nargs="?", default="", help="part of a kind's name")
    options = parser.parse_args()
    KEPT.folder = options.keep
    print(page(options.experiments, options.only))


if __name__ == "__main__":
    main()
