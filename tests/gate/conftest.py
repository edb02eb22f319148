"""Synthetic executions: evidence with known properties, in memory or as real folders."""

from __future__ import annotations

import dataclasses
import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilegate.gate.judge import judge
from compilegate.gate.metrics import metric_value
from compilegate.gate.settings import ArmDeclaration, Experiment, GateSettings, MetricGuard
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import (
    CompileCacheRecord,
    CompilerRecord,
    Evidence,
    EvidenceError,
    EvidenceRecord,
    Examples,
    PairedBlocks,
    PairedSpeedRecord,
    ParityErrors,
    ParityRecord,
    SpeedRecord,
    Steps,
    column_digests,
    write_evidence,
)
from compilegate.job.evidence.trained_on import trained_on

METRICS = ("accuracy", "balanced_accuracy", "macro_f1", "log_loss")
CLASSES = 4
STEPS = 60
STEADY_FROM = 6
_COLUMNS = {"steps": "change_steps", "examples": "change_examples", "errors": "change_parity"}


def examples_with(correct: np.ndarray, labels: np.ndarray, confidence: float = 0.85) -> Examples:
    """Examples whose predictions are right where `correct` is true."""
    count = len(labels)
    predicted = np.where(correct, labels, (labels + 1) % CLASSES)
    scores = np.full((count, CLASSES), (1.0 - confidence) / (CLASSES - 1))
    scores[np.arange(count), predicted] = confidence
    return Examples(
        ids=np.array([f"doc-{index:05d}" for index in range(count)]),
        labels=labels,
        scores=scores,
        losses=-np.log(scores[np.arange(count), labels]),
    )


@dataclasses.dataclass(repr=False)
class SyntheticExecution:
    """One execution's experiment and evidence; tests change what they are about."""

    experiment: Experiment
    records: dict[tuple[str, int], EvidenceRecord | EvidenceError]

    def judge(self, **options: Any) -> Verdict:
        return judge(self.experiment, self.records, **options)

    def record(self, arm: str, seed: int) -> EvidenceRecord:
        record = self.records[arm, seed]
        assert isinstance(record, EvidenceRecord)
        return record

    def change_evidence(self, arm: str, seed: int, /, **fields: Any) -> None:
        record = self.record(arm, seed)
        evidence = dataclasses.replace(record.evidence, **fields)
        self.records[arm, seed] = dataclasses.replace(record, evidence=evidence)

    def alter(self, arm: str, seed: int, /, **changes: Any) -> None:
        """Change `PART__NAME` each, with all that follows from it: `recipe__epochs=4`. What can be
        called is given the value that is there; None takes a digest or a metric away."""
        for path, value in changes.items():
            part, _, name = path.partition("__")
            record = self.record(arm, seed)
            holder = record.evidence if hasattr(record.evidence, part) else record
            known = getattr(record if part in ("steps", "examples") else holder, part, None)
            if part == "errors":
                known = record.parity
            old = known.get(name) if isinstance(known, dict) else getattr(known, name or "x", known)
            new = value(old) if callable(value) else value
            if part in _COLUMNS:
                getattr(self, _COLUMNS[part])(arm, seed, **{name: new})
            elif not name:
                self.change_evidence(arm, seed, **{part: new})
            elif isinstance(known, dict):
                values = {**known, name: new}
                if part in ("digests", "metrics"):
                    values = {key: it for key, it in values.items() if it is not None}
                self.change_evidence(arm, seed, **{part: values})
            else:
                changed = dataclasses.replace(known, **{name: new})
                self.change_evidence(arm, seed, **{part: changed})

    def alter_all(self, arm: str, /, **changes: Any) -> None:
        """The same of each job of an arm, or of both arms: "baseline fast"."""
        for of, seed in list(self.records):
            if of in arm.split():
                self.alter(of, seed, **changes)

    def declare(self, arm: str, /, **values: Any) -> None:
        """Declare other values for an arm."""
        arms = dict(self.experiment.arms)
        arms[arm] = arms[arm].model_copy(update=values)
        self.experiment = self.experiment.model_copy(update={"arms": arms})

    def fail(self, arm: str, seed: int, why: str, ending: str | None = None) -> None:
        """Let a job have ended without a model."""
        evidence = self.record(arm, seed).evidence
        failed = dataclasses.replace(evidence, failure=why, ending=ending, speed=None)
        self.records[arm, seed] = EvidenceRecord(failed, None, None)

    def put_scores(self, arm: str, seed: int, scores: np.ndarray) -> None:
        """Other scores, with the losses that follow from them."""
        labels = self.examples(arm, seed).labels
        losses = -np.log(scores[np.arange(len(scores)), labels])
        self.change_examples(arm, seed, scores=scores, losses=losses)

    def examples(self, arm: str, seed: int) -> Examples:
        examples = self.record(arm, seed).examples
        assert examples is not None
        return examples

    def seconds(self, arm: str, seed: int) -> np.ndarray:
        """A copy of its step times."""
        steps = self.record(arm, seed).steps
        assert steps is not None
        return steps.seconds.copy()

    def train_on(
        self, arm: str, seed: int, ids: Any = None, inputs: Any = None, slices: Any = None
    ) -> None:
        """Let the job say what it trained on."""
        told = trained_on(ids, inputs, slices)
        record = dataclasses.replace(self.record(arm, seed), trained_on=told)
        self.records[arm, seed] = with_digests(record)

    def change_examples(self, arm: str, seed: int, /, **columns: Any) -> None:
        """Change columns, and everything in the evidence that follows from them."""
        examples = dataclasses.replace(self.examples(arm, seed), **columns)
        self.records[arm, seed] = with_examples(self.record(arm, seed), examples)

    def put_examples(
        self, arm: str, seed: int, examples: Examples | None, metrics: dict[str, float]
    ) -> None:
        """Other examples or none, with the metrics that the job reports."""
        self.change_evidence(arm, seed, metrics=metrics)
        record = dataclasses.replace(self.record(arm, seed), examples=examples)
        self.records[arm, seed] = with_digests(record)

    def change_parity(self, arm: str, seed: int, /, **columns: Any) -> None:
        record = self.record(arm, seed)
        assert record.parity is not None
        self.records[arm, seed] = with_digests(
            dataclasses.replace(record, parity=dataclasses.replace(record.parity, **columns))
        )

    def without_parity(self, arm: str, seed: int, obstacle: str | None = None) -> None:
        """Take the parity record away, or put in its place why there is none."""
        instead = None if obstacle is None else ParityRecord("fp32", 0, 0.1, obstacle)
        self.change_evidence(arm, seed, parity=instead)
        self.records[arm, seed] = with_digests(
            dataclasses.replace(self.record(arm, seed), parity=None)
        )

    def pair(
        self, arm: str, seed: int, ratio: float, *, pairs: int = 20, rest: float = 0.0
    ) -> None:
        """Let a job of `arm` have taken steps in turns: the baseline's takes `ratio` times as long
        as its own, and its training step the share `rest` longer than that."""
        record = self.record(arm, seed)
        assert record.steps is not None
        generator = np.random.default_rng([seed, pairs])
        own = float(np.median(record.steps.seconds)) * (1.0 - rest)
        noise = generator.lognormal(0.0, 0.01, (2, pairs))
        blocks = PairedBlocks(ratio * own * noise[0], own * noise[1], np.arange(pairs) % 2 == 0)
        sizes = [self.experiment.arms[name].batch_size for name in ("baseline", arm)]
        told = PairedSpeedRecord(2.0, "eager", *sizes, steps_per_block=5)
        self.put_pairs(arm, seed, told, blocks)

    def put_pairs(
        self, arm: str, seed: int, told: PairedSpeedRecord, blocks: PairedBlocks | None
    ) -> None:
        self.change_evidence(arm, seed, paired_speed=told)
        record = dataclasses.replace(self.record(arm, seed), paired=blocks)
        self.records[arm, seed] = with_digests(record)

    def change_steps(self, arm: str, seed: int, /, **columns: Any) -> None:
        """Change columns, and all that follows from them."""
        record = self.record(arm, seed)
        assert record.steps is not None
        assert record.evidence.speed is not None
        steps = dataclasses.replace(record.steps, **columns)
        in_steps = float(steps.seconds.sum())
        steady = steps.seconds[record.evidence.speed.steady_from :]
        speed = dataclasses.replace(
            record.evidence.speed,
            samples_per_second=self.experiment.arms[arm].global_batch_size / float(steady.mean()),
            train_seconds=in_steps,
            total_seconds=in_steps + 3.0,
        )
        recipe = {**record.evidence.recipe, "steps": len(steps.loss)}
        self.change_evidence(arm, seed, speed=speed, recipe=recipe)
        self.records[arm, seed] = with_digests(
            dataclasses.replace(self.record(arm, seed), steps=steps)
        )

    def jobs(self) -> dict[tuple[str, int], str]:
        return {replicate: self.record(*replicate).evidence.job for replicate in self.records}

    def write(self, folder: Path, *, archives: bool = False) -> Path:
        """Write gate.json and the evidence the way the Processing step finds them."""
        (folder / "gate.json").write_text(self.experiment.model_dump_json())
        for (arm, seed), record in self.records.items():
            assert isinstance(record, EvidenceRecord)
            replicate = folder / "evidence" / f"{arm}--{seed}"
            write_evidence(
                replicate,
                record.evidence,
                record.steps,
                record.examples,
                record.parity,
                paired=record.paired,
                trained_on=record.trained_on,
            )
            if archives:
                with tarfile.open(replicate / "output.tar.gz", "w:gz") as archive:
                    archive.add(replicate / "evidence", arcname="evidence")
                for file in (replicate / "evidence").iterdir():
                    file.unlink()
                (replicate / "evidence").rmdir()
        return folder


def with_examples(record: EvidenceRecord, examples: Examples) -> EvidenceRecord:
    """The record with other examples, and with the metrics and digest that follow from them."""
    metrics = {name: metric_value(name, examples) for name in METRICS}
    evidence = dataclasses.replace(record.evidence, metrics=metrics)
    return with_digests(dataclasses.replace(record, evidence=evidence, examples=examples))


def with_digests(record: EvidenceRecord) -> EvidenceRecord:
    """The record as its job would have written it: with the digests of its own columns."""
    digests = record.evidence.digests
    kept = {name: digests[name] for name in ("data", "model") if name in digests}
    tables = (record.steps, record.examples, record.parity, record.paired, record.trained_on)
    columns = column_digests(*tables)
    evidence = dataclasses.replace(record.evidence, digests={**kept, **columns})
    return dataclasses.replace(record, evidence=evidence)


def measured_parity(of: str) -> ParityRecord:
    """What a job says that compared two steps; `of` names it."""
    compared = {"exact": hashlib.sha256(of.encode()).hexdigest()}
    counts = {"trained_parameters": 1000, "compared_parameters": 1000}
    return ParityRecord("fp32", 2, 0.2, compared=compared, **counts)


def build_record(
    arm: str, seed: int, declaration: ArmDeclaration, examples: Examples, step_seconds: float
) -> EvidenceRecord:
    """A sound record of one replicate."""
    generator = np.random.default_rng([seed, len(arm) + (arm == "compiled")])
    seconds = step_seconds * generator.lognormal(0.0, 0.02, STEPS)
    compiled = declaration.compiler != "eager"
    compile_seconds = 0.2 if compiled else 0.0  # of runs that take three seconds
    seconds[0] += compile_seconds
    evidence = Evidence(
        job=f"train-{arm}-{seed}",
        arm=arm,
        seed=seed,
        recipe={
            "batch_size": declaration.batch_size,
            "learning_rate": declaration.learning_rate,
            "precision": declaration.precision,
            "epochs": 3,
            "steps": STEPS,
        },
        compiler=CompilerRecord(
            name=declaration.compiler,
            ran=compiled,
            proof={"unique_graphs": 1 if compiled else 0},
            compile_seconds=compile_seconds,
            graphs=1 if compiled else 0,
        ),
        speed=SpeedRecord(
            samples_per_second=declaration.batch_size / step_seconds,
            steady_from=STEADY_FROM,
            train_seconds=float(seconds.sum()),
            total_seconds=float(seconds.sum()) + 3.0,
        ),
        peak_memory_bytes=500_000_000,
        memory_of="process",
        environment={"torch": "2.13.0", "cpu": "a processor", "cores_available": 1},
        digests={
            "data": hashlib.sha256(b"data").hexdigest(),
            "model": hashlib.sha256(f"{arm} {seed}".encode()).hexdigest(),
        },
    )
    parity = None
    if compiled:
        cache = CompileCacheRecord("cold", "There was none.", "f" * 64, 0, 2, 0, 570_000)
        evidence = dataclasses.replace(
            evidence, parity=measured_parity(f"{arm} {seed}"), compile_cache=cache
        )
        eager = generator.uniform(2e-7, 6e-7, (2, 3))
        tensors = np.array(["loss", "logits", "gradient of classifier.weight"])
        parity = ParityErrors(tensors, eager, np.zeros((2, 3)), compiled=1.1 * eager)
    # A seed's batches are those of every arm; what a compiler rounds otherwise hardly shows.
    batches = np.random.default_rng(seed).normal(1.0, 0.03, STEPS)
    losses = np.linspace(1.4, 0.2, STEPS) * batches * generator.normal(1.0, 1e-4, STEPS)
    steps = Steps(loss=losses, seconds=seconds)
    return with_examples(EvidenceRecord(evidence, steps, None, parity), examples)


def build_execution(
    *,
    seeds: tuple[int, ...] = (1, 2, 3),
    examples: int = 2000,
    accuracy: float = 0.95,
    worse_by: float = 0.0,
    speedup: float = 1.5,
    candidates: tuple[str, ...] = ("fast",),
    metrics: dict[str, MetricGuard] | None = None,
    **settings: Any,
) -> SyntheticExecution:
    """A baseline and candidates that agree but for a few examples, and `speedup` in the steps."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, CLASSES, examples)
    easy = generator.random(examples) < accuracy
    declarations = {
        "baseline": ArmDeclaration(
            compiler="eager", batch_size=32, learning_rate=1e-3, precision="fp32"
        ),
        **{
            name: ArmDeclaration(
                compiler="inductor", batch_size=32, learning_rate=1e-3, precision="fp32"
            )
            for name in candidates
        },
    }
    records: dict[tuple[str, int], EvidenceRecord | EvidenceError] = {}
    for arm, declaration in declarations.items():
        for seed in seeds:
            correct = easy ^ (generator.random(examples) < 0.004)
            if arm != "baseline":
                correct &= generator.random(examples) >= worse_by
            step_seconds = 0.05 if arm == "baseline" else 0.05 / speedup
            records[arm, seed] = build_record(
                arm, seed, declaration, examples_with(correct, labels), step_seconds
            )
    guards = metrics or {
        "accuracy": MetricGuard(direction="higher", margin=0.01),
        "log_loss": MetricGuard(direction="lower", margin=0.05),
    }
    experiment = Experiment(
        workload="topics",
        baseline="baseline",
        arms=declarations,
        seeds=list(seeds),
        settings=GateSettings(metrics=guards, **settings),
    )
    return SyntheticExecution(experiment, records)


@pytest.fixture(scope="session")
def new_execution() -> Callable[..., SyntheticExecution]:
    """A function that builds synthetic executions."""
    return build_execution


@pytest.fixture
def execution() -> SyntheticExecution:
    """A sound execution whose one candidate passes."""
    return build_execution()
