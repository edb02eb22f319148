"""Observations: what the report page draws, small enough to keep beside the verdict.

`observations.json` holds no judgement. It is written for whatever could be read, also where the
evidence is unusable, so that the page can show what was found.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from compilegate.errors import CompilegateError
from compilegate.gate.evidence import Replicate
from compilegate.gate.findings import Subject, clipped
from compilegate.gate.metrics import MetricUndefinedError, MetricValues
from compilegate.gate.record import MOST_BYTES, unusable
from compilegate.gate.settings import Experiment
from compilegate.job.contract import SPEED_METRIC
from compilegate.job.evidence import (
    Evidence,
    EvidenceError,
    EvidenceRecord,
    Examples,
    FloatArray,
    PaddingRecord,
)
from compilegate.job.evidence.steady import are_durations, steady_seconds

_Amount = TypeVar("_Amount", int, float)

SCHEMA_VERSION: Final = 1
MOST_POINTS = 6000
"""Points of all loss curves together, which limits the file's size."""
MOST_POINTS_PER_CURVE = 120
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
MOST_TEXT = 200
MOST_NOTES = 20
LONGEST_NOTE, LONGEST_PROBLEM = 500, 1_500
MOST_VALUES = 50
"""Environment values and proofs of one arm; printed metrics of one job, and values of each."""


class ObservationsError(CompilegateError):
    """Observations that cannot be read. The message says what is wrong with them."""


@dataclass(frozen=True)
class Curve:
    """A training loss curve: means over equal stretches of steps."""

    steps: tuple[float, ...]
    """Middle of each stretch."""
    losses: tuple[float, ...]


@dataclass(frozen=True)
class ReplicateObservation:
    """Measurements of one replicate; None or empty where its evidence could not be used."""

    arm: str
    seed: int
    job: str | None = None
    problem: str | None = None
    """Why there is no evidence, or why the arm could not be trained."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The declared metrics: recomputed from the examples where they can be, else as reported."""
    loss: Curve | None = None
    steps: int | None = None
    step_seconds: tuple[float, ...] = ()
    """The QUANTILES of the steady step times."""
    samples_per_second: float | None = None
    compile_seconds: float | None = None
    compile_cache: str | None = None
    """``warm``, ``cold`` or ``ignored``; None where no cache was declared."""
    train_seconds: float | None = None
    peak_memory_bytes: int | None = None
    graphs: int | None = None
    graph_breaks: int | None = None
    recompilations: int | None = None
    notes: tuple[str, ...] = ()
    """Notes of the job: sentences with their remedies."""
    printed: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Printed values by metric, of a job that left nothing else."""
    cache_ignored: str | None = None
    """Why the compile cache that was there was not used."""


@dataclass(frozen=True)
class ArmObservation:
    """The declaration of one arm, and the machine of its first readable replicate."""

    arm: str
    compiler: str
    batch_size: int
    learning_rate: float
    precision: str
    environment: Mapping[str, str]
    proof: Mapping[str, str]
    """Proof that the compiler ran."""
    padding: PaddingRecord | None = None
    """Lengths of its documents, and the cost of padding; None where its jobs do not say."""


@dataclass(frozen=True)
class Observations:
    """Everything that is drawn."""

    workload: str
    baseline: str
    arms: tuple[ArmObservation, ...]
    replicates: tuple[ReplicateObservation, ...]
    left_out: tuple[str, ...] = ()
    """Arms that the workload declares and this execution went without."""
    data: str | None = None
    """sha256 of the data that the baseline trained on; None where no job says."""
    schema_version: Literal[1] = SCHEMA_VERSION

    def to_json(self) -> str:
        """`observations.json`; numbers are finite."""
        document = dataclasses.asdict(self)
        return json.dumps(document, separators=(",", ":"), sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Observations:
        """Read `observations.json` back. Raises ObservationsError for anything else."""
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "the document"
            raise ObservationsError(
                f"not observations of schema {SCHEMA_VERSION}: {key}: {first['msg']}"
            ) from error


_ADAPTER = TypeAdapter(Observations)


def observe(
    experiment: Experiment,
    records: Mapping[Replicate, EvidenceRecord | EvidenceError],
    values: MetricValues | None = None,
) -> Observations:
    """Summarise all records for the page; unusable ones become a problem in words.

    `values` may be shared with `judge`, so that metrics are computed once.
    """
    values = MetricValues() if values is None else values
    found = {key: records[key] for key in experiment.replicates if key in records}
    usable = {key: it.evidence for key, it in found.items() if isinstance(it, EvidenceRecord)}
    of_arms = {
        arm: [usable[arm, seed] for seed in experiment.seeds if (arm, seed) in usable]
        for arm in experiment.arms
    }
    data = (evidence.digests.get("data") for evidence in of_arms[experiment.baseline])
    points = min(MOST_POINTS_PER_CURVE, max(MOST_POINTS // len(experiment.replicates), 2))
    return Observations(
        workload=experiment.workload,
        baseline=experiment.baseline,
        arms=tuple(_arm(arm, experiment, jobs) for arm, jobs in of_arms.items()),
        replicates=tuple(
            _replicate(experiment, key, found.get(key), points, values)
            for key in experiment.replicates
        ),
        left_out=tuple(experiment.left_out),
        data=next((clipped(digest, MOST_TEXT) for digest in data if digest), None),
    )


def _arm(arm: str, experiment: Experiment, jobs: Sequence[Evidence]) -> ArmObservation:
    declared, first = experiment.arms[arm], jobs[0] if jobs else None
    compiler = None if first is None else first.compiler
    return ArmObservation(
        arm=arm,
        compiler=declared.compiler,
        batch_size=declared.batch_size,
        learning_rate=declared.learning_rate,
        precision=declared.precision,
        environment={} if first is None else _texts(first.environment),
        proof={} if compiler is None else _texts({**compiler.options, **compiler.proof}),
        padding=None if first is None else first.padding,
    )


def _replicate(
    experiment: Experiment,
    replicate: Replicate,
    record: EvidenceRecord | EvidenceError | None,
    points: int,
    values: MetricValues,
) -> ReplicateObservation:
    arm, seed = replicate
    if not isinstance(record, EvidenceRecord):
        problem = unusable(Subject(seed), record).statement.sentence
        return ReplicateObservation(arm, seed, problem=clipped(problem, LONGEST_PROBLEM))
    evidence, speed, compiler = record.evidence, record.evidence.speed, record.evidence.compiler
    job = clipped(evidence.job, MOST_TEXT)
    if evidence.failure is not None:
        return ReplicateObservation(
            arm, seed, job, problem=clipped(evidence.failure, LONGEST_PROBLEM)
        )
    seen = ReplicateObservation(
        arm,
        seed,
        job,
        metrics=_metrics(experiment, record, values),
        notes=tuple(clipped(note, LONGEST_NOTE) for note in evidence.notes[:MOST_NOTES]),
    )
    if speed is None or compiler is None or record.steps is None:
        rate = _plausible(evidence.metrics.get(SPEED_METRIC))
        return replace(seen, samples_per_second=rate, printed=_printed(evidence))
    seconds, cache = steady_seconds(evidence, record.steps), evidence.compile_cache
    size = experiment.arms[arm].global_batch_size
    measurable = len(seconds) > 0 and bool(are_durations(seconds).all())
    return replace(
        seen,
        loss=_curve(record.steps.loss, points),
        steps=len(record.steps.loss),
        step_seconds=tuple(np.quantile(seconds, QUANTILES).tolist()) if measurable else (),
        samples_per_second=size * len(seconds) / float(seconds.sum()) if measurable else None,
        compile_seconds=_plausible(compiler.compile_seconds),
        compile_cache=None if cache is None else cache.state,
        cache_ignored=clipped(cache.reason) if cache and cache.state == "ignored" else None,
        train_seconds=_plausible(speed.train_seconds),
        # One that does not say whose memory it is may be the host's beside a GPU.
        peak_memory_bytes=_plausible(evidence.peak_memory_bytes) if evidence.memory_of else None,
        graphs=_plausible(compiler.graphs),
        graph_breaks=_plausible(compiler.graph_breaks),
        recompilations=_plausible(compiler.recompilations),
    )


def _printed(evidence: Evidence) -> dict[str, tuple[float, ...]]:
    """Numbers that are finite: NaN is no number of a page."""
    found = {
        clipped(name, 60): tuple(value for value in values if math.isfinite(value))
        for name, values in list(evidence.printed.items())[:MOST_VALUES]
    }
    return {name: values[-MOST_VALUES:] for name, values in found.items() if values}


def _metrics(
    experiment: Experiment, record: EvidenceRecord, values: MetricValues
) -> dict[str, float]:
    """The metrics that are finite numbers; the verdict says why others are not."""
    computable = record.examples is not None and _is_computable(record.examples)
    found: dict[str, float] = {}
    for name, guard in experiment.settings.metrics.items():
        if guard.reported or computable:
            with contextlib.suppress(MetricUndefinedError):
                found[name] = values.of_record(name, guard, record)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _is_computable(examples: Examples) -> bool:
    rows, classes = examples.scores.shape
    return (
        rows > 0
        and 0 <= examples.labels.min() <= examples.labels.max() < max(classes, 1)
        and bool(np.isfinite(examples.scores).all() and np.isfinite(examples.losses).all())
    )


def _curve(losses: FloatArray, points: int) -> Curve | None:
    usable = np.abs(losses) <= 1e6  # False for NaN too: a gap in the curve
    if not usable.any():
        return None
    stretches = np.array_split(np.arange(len(losses)), min(points, len(losses)))
    drawn = [stretch for stretch in stretches if usable[stretch].all()]
    return Curve(
        steps=tuple(round(float(stretch.mean()), 1) for stretch in drawn),
        losses=tuple(float(f"{losses[stretch].mean():.5g}") for stretch in drawn),
    )


def _plausible(amount: _Amount | None) -> _Amount | None:
    """The amount, unless it can only be damage: a number that is none, below zero or very large."""
    return amount if amount is not None and 0 <= amount <= MOST_BYTES else None


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    first = sorted(values.items())[:MOST_VALUES]
    return {
        clipped(key, 60): "none" if value is None else clipped(str(value), MOST_TEXT)
        for key, value in first
    }
