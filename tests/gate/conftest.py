"""Synthetic executions: evidence with known properties, in memory or as real folders."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilegate.gate.evidence import read_replicate
from compilegate.gate.judge import judge
from compilegate.gate.metrics import MetricUndefinedError, metric_value
from compilegate.gate.settings import ArmDeclaration, Experiment, GateSettings
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
from compilegate.job.evidence.writing import TrainedRows

METRICS = ("accuracy", "balanced_accuracy", "macro_f1", "log_loss")
CLASSES = 4
STEPS = 60
STEADY_FROM = 6
_COLUMNS = {"steps": "steps", "examples": "examples", "errors": "parity"}
"""How `alter` calls the parts of a record that are columns."""


def classified(labels: np.ndarray, scores: np.ndarray, **columns: Any) -> Examples:
    """Examples with a class each, and the losses that follow from the scores."""
    count = len(labels)
    if "losses" not in columns:
        with np.errstate(divide="ignore"):
            columns["losses"] = -np.log(scores[np.arange(count), labels])
    ids = columns.pop("ids", np.array([f"doc-{index:05d}" for index in range(count)]))
    return Examples(ids, labels, scores, **columns)


def scores_of(predicted: np.ndarray, classes: int, confidence: float) -> np.ndarray:
    """The same confidence in each prediction, and what is left for the other classes."""
    scores = np.full((len(predicted), classes), (1.0 - confidence) / (classes - 1))
    scores[np.arange(len(predicted)), predicted] = confidence
    return scores


def unclassified(losses: np.ndarray, **columns: Any) -> Examples:
    """Examples without classes, as of tokens, or of predicted numbers."""
    return classified(
        np.zeros(len(losses), dtype=np.int64), np.empty((len(losses), 0)), losses=losses, **columns
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

    def examples(self, arm: str, seed: int) -> Examples:
        examples = self.record(arm, seed).examples
        assert examples is not None
        return examples

    def seconds(self, arm: str, seed: int) -> np.ndarray:
        """A copy of its step times."""
        steps = self.record(arm, seed).steps
        assert steps is not None
        return steps.seconds.copy()

    def put(self, arm: str, seed: int, /, **parts: Any) -> None:
        """Put other parts into a record, or other columns of a part that is there, with all that
        follows in its evidence: metrics, sums and digests."""
        record = self.record(arm, seed)
        for name, it in parts.items():
            columns = isinstance(it, dict)
            part = dataclasses.replace(getattr(record, name), **it) if columns else it
            record = dataclasses.replace(record, **{name: part})
        evidence = record.evidence
        if "examples" in parts and record.examples is not None:
            evidence = dataclasses.replace(evidence, metrics=metrics_of(record.examples))
        if "steps" in parts and record.steps is not None:
            size = self.experiment.arms[arm].global_batch_size
            recipe = {**evidence.recipe, "steps": len(record.steps.loss)}
            speed = speed_of(record.steps, size)
            evidence = dataclasses.replace(evidence, recipe=recipe, speed=speed)
        self.records[arm, seed] = with_digests(dataclasses.replace(record, evidence=evidence))

    def alter(self, arm: str, seed: int, /, **changes: Any) -> None:
        """Change values of the evidence, keys of its parts (`recipe__epochs=4`), or columns with
        all that follows from them (`steps__loss=...`; of parity, `errors__...`). What can be called
        is given the value that is there; None takes a digest or a metric away."""
        for path, value in changes.items():
            part, _, name = path.partition("__")
            record = self.record(arm, seed)
            of_columns = _COLUMNS.get(part)
            holder = getattr(*((record, of_columns) if of_columns else (record.evidence, part)))
            if not name:
                old = holder
            else:
                old = holder.get(name) if isinstance(holder, dict) else getattr(holder, name)
            new = value(old) if callable(value) else value
            if of_columns:
                self.put(arm, seed, **{of_columns: {name: new} if name else new})
                continue
            if name and isinstance(holder, dict):
                new = {**holder, name: new}
                if new[name] is None and part in ("digests", "metrics"):
                    del new[name]
            elif name:
                new = dataclasses.replace(holder, **{name: new})
            evidence = dataclasses.replace(record.evidence, **{part: new})
            self.records[arm, seed] = dataclasses.replace(record, evidence=evidence)

    def alter_all(self, arms: str, /, **changes: Any) -> None:
        """The same of each job of an arm, or of both arms: "baseline fast"."""
        for arm, seed in list(self.records):
            if arm in arms.split():
                self.alter(arm, seed, **changes)

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
        losses = classified(self.examples(arm, seed).labels, scores).losses
        self.put(arm, seed, examples={"scores": scores, "losses": losses})

    def train_on(self, arm: str, seed: int, *columns: Any) -> None:
        """Let the job say what it trained on: ids, inputs, categories."""
        rows = TrainedRows()
        rows.add(*columns)
        self.put(arm, seed, trained_on=rows.trained_on())

    def without_parity(self, arm: str, seed: int, obstacle: str | None = None) -> None:
        """Take the parity record away, or put in its place why there is none."""
        instead = None if obstacle is None else ParityRecord("fp32", 0, 0.1, obstacle)
        self.alter(arm, seed, parity=instead)
        self.put(arm, seed, parity=None)

    def pair(self, arm: str, seed: int, ratio: float, *, pairs: int = 20) -> None:
        """Let a job of `arm` have taken steps in turns: the baseline's takes `ratio` times as long
        as its own."""
        own = float(np.median(self.seconds(arm, seed)))
        noise = np.random.default_rng([seed, pairs]).lognormal(0.0, 0.01, (2, pairs))
        blocks = PairedBlocks(ratio * own * noise[0], own * noise[1], np.arange(pairs) % 2 == 0)
        sizes = [self.experiment.arms[name].batch_size for name in ("baseline", arm)]
        recorded = PairedSpeedRecord(2.0, "eager", *sizes, steps_per_block=5)
        self.alter(arm, seed, paired_speed=recorded)
        self.put(arm, seed, paired=blocks)

    def write(self, folder: Path, *, archives: bool = False) -> Path:
        """Write gate.json and the evidence the way the Processing step finds them."""
        (folder / "gate.json").write_text(self.experiment.model_dump_json())
        for arm, seed in self.records:
            replicate = folder / "evidence" / f"{arm}--{seed}"
            write_record(replicate, self.record(arm, seed))
            if archives:
                with tarfile.open(replicate / "output.tar.gz", "w:gz") as archive:
                    archive.add(replicate / "evidence", arcname="evidence")
                shutil.rmtree(replicate / "evidence")
        return folder


def write_record(folder: Path, record: EvidenceRecord) -> None:
    """Write a record's evidence below a replicate's folder."""
    write_evidence(
        folder,
        record.evidence,
        record.steps,
        record.examples,
        record.parity,
        paired=record.paired,
        trained_on=record.trained_on,
    )


def as_read(record: EvidenceRecord) -> EvidenceRecord | EvidenceError:
    """The record once it is written and read back, or the error that this meets."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            write_record(Path(folder), record)
            return read_replicate(Path(folder))
        except EvidenceError as error:
            return error


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def metrics_of(examples: Examples) -> dict[str, float]:
    """The metrics that a job reports of its examples: those that these determine."""
    found = {}
    for name in METRICS:
        with suppress(MetricUndefinedError):
            found[name] = metric_value(name, examples)
    return found


def speed_of(steps: Steps, batch_size: int) -> SpeedRecord:
    """What a job says of its speed."""
    in_steps, steady = float(steps.seconds.sum()), steps.seconds[STEADY_FROM:]
    return SpeedRecord(batch_size / float(steady.mean()), STEADY_FROM, in_steps, in_steps + 3.0)


def with_digests(record: EvidenceRecord) -> EvidenceRecord:
    """The record as its job would have written it: with the digests of its own columns."""
    found = record.evidence.digests
    digests = {name: found[name] for name in ("data", "model") if name in found}
    columns = column_digests(
        record.steps, record.examples, record.parity, record.paired, record.trained_on
    )
    evidence = dataclasses.replace(record.evidence, digests={**digests, **columns})
    return dataclasses.replace(record, evidence=evidence)


def build_record(
    arm: str, seed: int, declared: ArmDeclaration, examples: Examples, step_seconds: float
) -> EvidenceRecord:
    """A sound record of one replicate."""
    generator = np.random.default_rng([seed, len(arm) + (arm == "compiled")])
    seconds = step_seconds * generator.lognormal(0.0, 0.02, STEPS)
    compiled = declared.compiler != "eager"
    compile_seconds = 0.2 if compiled else 0.0  # of runs that take three seconds
    seconds[0] += compile_seconds
    parity = errors = cache = None
    if compiled:
        cache = CompileCacheRecord("cold", "There was none.", "f" * 64, 0, 2, 0, 570_000)
        counts = {"trained_parameters": 1000, "compared_parameters": 1000}
        compared = {"exact": sha256(f"{arm} {seed}")}
        parity = ParityRecord("fp32", 2, 0.2, compared=compared, **counts)
        eager = generator.uniform(2e-7, 6e-7, (2, 3))
        tensors = np.array(["loss", "logits", "gradient of classifier.weight"])
        errors = ParityErrors(tensors, eager, np.zeros((2, 3)), compiled=1.1 * eager)
    # A seed's batches are those of every arm; what a compiler rounds otherwise hardly shows.
    batches = np.random.default_rng(seed).normal(1.0, 0.03, STEPS)
    losses = np.linspace(1.4, 0.2, STEPS) * batches * generator.normal(1.0, 1e-4, STEPS)
    steps = Steps(loss=losses, seconds=seconds)
    recipe = declared.model_dump(include={"batch_size", "learning_rate", "precision"})
    evidence = Evidence(
        job=f"train-{arm}-{seed}",
        arm=arm,
        seed=seed,
        recipe={**recipe, "epochs": 3, "steps": STEPS},
        compiler=CompilerRecord(
            name=declared.compiler,
            ran=compiled,
            proof={"unique_graphs": int(compiled)},
            compile_seconds=compile_seconds,
            graphs=int(compiled),
        ),
        speed=dataclasses.replace(speed_of(steps, 32), samples_per_second=32 / step_seconds),
        metrics=metrics_of(examples),
        peak_memory_bytes=500_000_000,
        memory_of="process",
        environment={"torch": "2.13.0", "cpu": "a processor", "cores_available": 1},
        digests={"data": sha256("data"), "model": sha256(f"{arm} {seed}")},
        parity=parity,
        compile_cache=cache,
    )
    return with_digests(EvidenceRecord(evidence, steps, examples, errors))


def build_execution(
    *,
    seeds: tuple[int, ...] = (1, 2, 3),
    examples: int = 2000,
    accuracy: float = 0.95,
    worse_by: float = 0.0,
    speedup: float = 1.5,
    candidates: tuple[str, ...] = ("fast",),
    metrics: dict[str, Any] | None = None,
    **settings: Any,
) -> SyntheticExecution:
    """A baseline and candidates that agree but for a few examples, and `speedup` in the steps."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, CLASSES, examples)
    easy = generator.random(examples) < accuracy
    usual = {"batch_size": 32, "learning_rate": 1e-3, "precision": "fp32"}
    arms = {"baseline": ArmDeclaration(compiler="eager", **usual)}
    arms |= {name: ArmDeclaration(compiler="inductor", **usual) for name in candidates}
    records: dict[tuple[str, int], EvidenceRecord | EvidenceError] = {}
    for arm, declared in arms.items():
        for seed in seeds:
            correct = easy ^ (generator.random(examples) < 0.004)
            if arm != "baseline":
                correct &= generator.random(examples) >= worse_by
            step_seconds = 0.05 if arm == "baseline" else 0.05 / speedup
            predicted = np.where(correct, labels, (labels + 1) % CLASSES)
            rows = classified(labels, scores_of(predicted, CLASSES, 0.85))
            records[arm, seed] = build_record(arm, seed, declared, rows, step_seconds)
    guards = metrics or {
        "accuracy": {"direction": "higher", "margin": 0.01},
        "log_loss": {"direction": "lower", "margin": 0.05},
    }
    declared_settings = GateSettings.model_validate({"metrics": guards, **settings})
    experiment = Experiment(
        workload="topics",
        baseline="baseline",
        arms=arms,
        seeds=list(seeds),
        settings=declared_settings,
    )
    return SyntheticExecution(experiment, records)


@pytest.fixture
def execution() -> SyntheticExecution:
    """A sound execution whose one candidate passes."""
    return build_execution()
