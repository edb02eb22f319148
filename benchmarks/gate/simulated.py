"""Evidence of one execution, built in memory, which the programs of the proof judge.

A `Job` is the output of one training job, before its record: a program changes it, and sums and
digests follow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from compilegate.gate.judge import judge
from compilegate.gate.settings import ArmDeclaration, Experiment, GateSettings, MetricGuard
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Verdict

from compilegate.job.evidence import (  # isort: skip
    CompilerRecord, Evidence, EvidenceRecord, Examples, PairedBlocks, PairedSpeedRecord,
    ParityErrors, ParityRecord, SpeedRecord, Steps, TrainedOn, column_digests,
)  # fmt: skip

Array = npt.NDArray[Any]
Generator = np.random.Generator

BASELINE, CANDIDATE, OTHER = "baseline", "fast", "wide"
STEADY_FROM = 6
RECIPE = {"batch_size": 32, "learning_rate": 1e-3, "precision": "fp32"}
MACHINE = {
    "torch": "2.13.0",
    "python": "3.11.7",
    "platform": "Linux-6.1.1-x86_64",
    "cpu": "a processor",
    "cores_available": 4,
    "instance_type": "ml.c5",
}
TENSORS = np.array(["loss", "logits", *(f"gradient of layer{it}.weight" for it in range(4))])
HIGHER = ("accuracy", "balanced_accuracy", "macro_f1", "micro_f1", "auroc")


def guards(relative: bool = False, **margins: float) -> dict[str, MetricGuard]:
    """Guard built-in metrics by these margins, or by such shares of the baseline's value."""
    return {
        name: MetricGuard(
            direction="higher" if name in HIGHER else "lower", margin=margin, relative=relative
        )
        for name, margin in margins.items()
    }


def digest(*key: object) -> str:
    """The sha256 of a key, in place of a file's."""
    return hashlib.sha256(repr(key).encode()).hexdigest()


def class_examples(labels: Array, scores: Array, ids: Array | None = None, **more: Any) -> Examples:
    """Examples with a class each, and the losses that follow from the scores."""
    losses = -np.log(np.maximum(scores[np.arange(len(labels)), labels], 1e-300))
    return loss_examples(losses, ids, labels=labels, scores=scores, **more)


def loss_examples(losses: Array, ids: Array | None = None, **more: Any) -> Examples:
    """Examples with nothing but losses, such as a language model's."""
    count = len(losses)
    if ids is None:
        ids = np.array([f"row-{row:05d}" for row in range(count)])
    unknown = {"labels": np.zeros(count, dtype=np.int64), "scores": np.zeros((count, 0))}
    return Examples(ids=ids, losses=losses, **{**unknown, **more})


def number_examples(targets: Array, predictions: Array, ids: Array | None = None) -> Examples:
    """Examples with a number each."""
    errors = (predictions - targets) ** 2
    return loss_examples(errors, ids, targets=targets, predictions=predictions)


@dataclass(frozen=True)
class Clock:
    """How long steps take. Noise and spread are standard deviations of logarithms."""

    step: float = 0.5  # seconds of the baseline's
    speedup: float = 1.5
    noise: float = 0.03  # of steps
    spread: float = 0.01  # of jobs
    pairs: int = 20  # of alternating blocks in each of the candidate's jobs; 0: none were timed
    compiling: float = 4.0  # seconds, in the first step of each of the candidate's jobs
    stalls: float = 0.0  # the share of jobs that take half as long again, on either side
    by_batch: float = 0.0  # by which batches differ, in both arms alike
    slower: float = 0.0  # by how much a job's machine slows down on the way at most
    decimals: int = 12
    outside: float = 0.0  # between steps, as a share of theirs

    def seconds(self, batches: Array, compiled: bool, draw: Generator) -> Array:
        """The times of one job's steps."""
        own = self.step / (self.speedup if compiled else 1.0) * draw.lognormal(0.0, self.spread)
        own *= 1.5 if draw.random() < self.stalls else 1.0
        found = own * batches * draw.lognormal(0.0, self.noise, len(batches))
        found *= np.linspace(1.0, 1.0 + self.slower * draw.random(), len(batches))
        found[:1] += self.compiling * compiled
        return np.maximum(np.round(found, self.decimals), 10.0**-self.decimals)

    def blocks(self, draw: Generator) -> PairedBlocks | None:
        """Blocks of the baseline's step and of the candidate's, in one process."""
        if not self.pairs:
            return None
        own = 0.995 * self.step / self.speedup * draw.lognormal(0.0, 0.3 * self.spread)
        noise = draw.lognormal(0.0, 0.02, (2, self.pairs))
        first = np.arange(self.pairs) % 2 == 0
        return PairedBlocks(own * self.speedup * noise[0], own * noise[1], first)


@dataclass
class Job:
    """The output of one training job."""

    arm: str
    seed: int
    examples: Any  # None, as of the probes, where there are none
    loss: Array
    seconds: Array
    recipe: dict[str, Any]
    compiler: dict[str, Any]
    trained_on: Any
    environment: dict[str, Any]
    outside: float = 0.0  # seconds of the training between its steps
    parity: Any = None
    paired: Any = None
    # These replace what follows, or are added to it.
    metrics: dict[str, float] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)  # of the evidence
    about_parity: dict[str, Any] = field(default_factory=dict)

    def record(self, batch: int) -> EvidenceRecord:
        """The record as the job wrote it."""
        steps = Steps(self.loss, self.seconds) if len(self.loss) else None
        columns = steps, self.examples, self.parity, self.paired, self.trained_on
        usual = {"data": digest("data"), "model": digest("model", self.arm, self.seed)}
        fields = {
            "job": f"train-{self.arm}-{self.seed}",
            "arm": self.arm,
            "seed": self.seed,
            "recipe": self.recipe,
            "compiler": CompilerRecord(**self.compiler),
            "speed": self._speed(batch),
            "metrics": self.metrics,
            "environment": self.environment,
            "peak_memory_bytes": 500_000_000,
            "memory_of": "process",
            "digests": {**usual, **self.digests, **column_digests(*columns)},
            "parity": self.parity and self._parity(),
            "paired_speed": self.paired and PairedSpeedRecord(2.0, "eager", batch, batch, 5),
        }
        return EvidenceRecord(Evidence(**{**fields, **self.fields}), *columns)

    def _speed(self, batch: int) -> SpeedRecord:
        training, steady = float(self.seconds.sum()) + self.outside, self.seconds[STEADY_FROM:]
        return SpeedRecord(
            samples_per_second=batch / float(steady.mean()) if len(steady) else 0.0,
            steady_from=STEADY_FROM,
            train_seconds=training,
            total_seconds=training + 20.0,
        )

    def _parity(self) -> ParityRecord:
        models = ("exact", "compiled", "eager")
        usual = {
            "precision": str(self.recipe["precision"]),
            "steps": 4,
            "seconds": 0.2,
            "trained_parameters": 1000,
            "compared_parameters": 1000,
            "compared": {name: digest(name, self.arm, self.seed) for name in models},
        }
        return ParityRecord(**{**usual, **self.about_parity})


@dataclass
class Execution:
    """The jobs of one execution, its arms and settings."""

    arms: dict[str, dict[str, Any]]
    jobs: dict[tuple[str, int], Job]
    settings: dict[str, Any]
    fields: dict[str, Any] = field(default_factory=dict)  # of the experiment

    def experiment(self) -> Experiment:
        """The experiment as the gate reads it."""
        declared = {arm: ArmDeclaration(**each) for arm, each in self.arms.items()}
        seeds = list(dict.fromkeys(seed for _, seed in self.jobs))
        fields = {"seeds": seeds, "settings": GateSettings(**self.settings), **self.fields}
        return Experiment(workload="w", baseline=BASELINE, arms=declared, **fields)

    def judge(self) -> Verdict:
        """The gate's verdict."""
        experiment = self.experiment()
        batches = {arm: declared.global_batch_size for arm, declared in experiment.arms.items()}
        records = {key: job.record(batches[key[0]]) for key, job in self.jobs.items()}
        return judge(experiment, records)


def codes_against(arm: BaselineVerdict | CandidateVerdict) -> list[str]:
    """The codes of all its reasons other than passes, each once."""
    codes = [str(each.code) for each in arm.reasons if str(each.outcome) != "pass"]
    return list(dict.fromkeys(codes))


def execution(
    examples: Mapping[tuple[str, int], Examples],
    draw: Generator,
    metrics: Mapping[str, MetricGuard],
    clock: Clock,
    losses: Mapping[tuple[str, int], Array] | None = None,
    **settings: Any,
) -> Execution:
    """An honest execution with these validation examples, by arm and seed."""
    found: dict[tuple[str, int], Job] = {}
    seeds = dict.fromkeys(seed for _, seed in examples)
    seen = TrainedOn(*(np.sort(draw.integers(-(2**62), 2**62, 400)) for _ in range(2)))
    batches = {seed: draw.lognormal(0.0, clock.by_batch, 1000) for seed in seeds}
    falling = 0.2 + 1.2 * np.exp(-5.0 * np.arange(120) / 120)
    curves = {seed: falling * draw.lognormal(0.0, 0.1, 120) for seed in seeds}
    for (arm, seed), rows in examples.items():
        compiled = arm != BASELINE
        loss = curves[seed] * draw.lognormal(0.0, 1e-4, 120)
        loss = loss if losses is None else losses[arm, seed]
        seconds = clock.seconds(batches[seed][: len(loss)], compiled, draw)
        recipe = {**RECIPE, "epochs": 3, "steps": len(loss)}
        compiler = {"name": "inductor" if compiled else "eager", "ran": compiled}
        job = Job(arm, seed, rows, loss, seconds, recipe, compiler, seen, dict(MACHINE))
        job.outside = clock.outside * float(seconds[1:].sum())
        if compiled:
            proof = {"graph_calls": len(loss)}
            compiler |= {"proof": proof, "graphs": 1, "compile_seconds": clock.compiling}
            eager = draw.uniform(2e-7, 6e-7, (4, len(TENSORS)))
            near = eager * draw.lognormal(0.0, 0.15, eager.shape)
            job.parity = ParityErrors(TENSORS, eager, np.zeros(eager.shape), near)
            job.paired = clock.blocks(draw)
        found[arm, seed] = job
    arms = dict.fromkeys(arm for arm, _ in examples)
    names = {True: "eager", False: "inductor"}
    declared = {arm: {"compiler": names[arm == BASELINE], **RECIPE} for arm in arms}
    return Execution(declared, found, {"metrics": dict(metrics), **settings})


def edit_examples(job: Job, **columns: Any) -> None:
    """Change columns of a job's examples."""
    job.examples = replace(job.examples, **columns)
