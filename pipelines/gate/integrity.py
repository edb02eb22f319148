"""Integrity: is one replicate's evidence usable? Every check fails closed, with its own code.

These checks look at one record and what the workload declares about it. What needs several records
side by side (duplicates, the same examples, the same data) is in `agreement`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.gate.config import ArmDeclaration, GateSettings, MetricName
from pipelines.gate.foreign_text import clipped
from pipelines.gate.metrics import metric_value
from pipelines.gate.reasons import Code, Reason, failure
from training.evidence import (
    Evidence,
    EvidenceError,
    EvidenceRecord,
    Examples,
    Steps,
    examples_digest,
)

REQUIRED_DIGESTS = ("data", "model", "examples")
SHA256 = re.compile(r"[0-9a-f]{64}")

SUM_TOLERANCE = 1e-3
"""Of a row of probabilities; single-precision softmax over thousands of classes stays within."""
LOSS_TOLERANCE = 0.02
"""Nats between a recorded loss and the one its score implies; bfloat16 scores stay within."""
SMALLEST_COMPARED_SCORE = 1e-6
"""Below this a score has lost its digits, and only the recorded loss still knows them."""
REPORTED_TOLERANCE = 1e-4
"""Between a reported metric and the gate's own: jobs may print four decimals."""

MOST_SECONDS = 1e8
MOST_BYTES = 1e16
MOST_LOSS = 1e6
"""Three years, ten petabytes, a million nats: beyond them a number is damage, not a measurement."""


class MissingEvidenceError(EvidenceError):
    """There is no evidence of a replicate at all."""


class TruncatedEvidenceError(EvidenceError):
    """The evidence of a replicate ends early or its archive is damaged."""


@dataclass(frozen=True)
class Expectation:
    """What the experiment expects of one replicate."""

    arm: str
    seed: int
    declaration: ArmDeclaration
    settings: GateSettings
    job: str | None
    """The training job whose evidence this must be; None when any job will do."""


def unusable(seed: int, error: EvidenceError | None) -> Reason:
    """The reason for a replicate that has no record: missing (None), truncated or unreadable."""
    if error is None:
        return failure(Code.EVIDENCE_MISSING, f"Seed {seed}: there is no evidence.", seed=seed)
    code = Code.EVIDENCE_UNREADABLE
    if isinstance(error, MissingEvidenceError):
        code = Code.EVIDENCE_MISSING
    elif isinstance(error, TruncatedEvidenceError):
        code = Code.EVIDENCE_TRUNCATED
    return failure(code, f"Seed {seed}: {clipped(str(error))}.", seed=seed)


def check_record(record: EvidenceRecord, expected: Expectation) -> tuple[Reason, ...]:
    """Everything that makes one replicate's evidence unusable; empty when it is sound."""
    evidence = record.evidence
    identity = tuple(_check_identity(evidence, expected))
    if evidence.failure is not None:
        told = f"Seed {expected.seed}: the arm could not be trained: {clipped(evidence.failure)}"
        return (*identity, failure(Code.ARM_FAILED, told, seed=expected.seed))
    if record.steps is None or record.examples is None:
        told = f"Seed {expected.seed}: the evidence has no steps or no examples."
        return (*identity, failure(Code.EVIDENCE_UNREADABLE, told, seed=expected.seed))
    return (
        *identity,
        *_check_scalars(evidence, expected),
        *_check_compiler(evidence, expected),
        *_check_recipe(evidence, expected),
        *_check_steps(evidence, record.steps, expected.seed),
        *_check_examples(evidence, record.examples, expected),
    )


def _check_identity(evidence: Evidence, expected: Expectation) -> Iterator[Reason]:
    if (evidence.arm, evidence.seed) != (expected.arm, expected.seed):
        yield failure(
            Code.EVIDENCE_SWAPPED,
            f"Seed {expected.seed}: the evidence in this place is of arm "
            f"{clipped(evidence.arm)!r}, seed {clipped(str(evidence.seed))}.",
            seed=expected.seed,
        )
    if expected.job is not None and evidence.job != expected.job:
        yield failure(
            Code.EVIDENCE_WRONG_JOB,
            f"Seed {expected.seed}: the evidence is of training job {clipped(evidence.job)!r}, "
            f"this execution's job is {expected.job!r}.",
            seed=expected.seed,
        )


def _check_scalars(evidence: Evidence, expected: Expectation) -> Iterator[Reason]:
    seed = expected.seed
    for name, value in evidence.metrics.items():
        if not math.isfinite(value):
            yield failure(
                Code.METRIC_NOT_FINITE,
                f"Seed {seed}: the job reported {clipped(name)} as {value}.",
                seed=seed,
            )
    for name in REQUIRED_DIGESTS:
        if not SHA256.fullmatch(evidence.digests.get(name, "")):
            yield failure(
                Code.DIGEST_MISSING,
                f"Seed {seed}: evidence.json has no sha256 of {name!r} among its digests.",
                seed=seed,
            )
    for name, value, most in _magnitudes(evidence):
        if value > most:
            yield failure(
                Code.EVIDENCE_IMPLAUSIBLE,
                f"Seed {seed}: {name} is {clipped(str(value))}, which no job measures "
                f"({most:.0e} at most).",
                seed=seed,
            )


def _magnitudes(evidence: Evidence) -> Iterator[tuple[str, float, float]]:
    yield "compiler.compile_seconds", evidence.compiler.compile_seconds, MOST_SECONDS
    yield "peak_memory_bytes", evidence.peak_memory_bytes, MOST_BYTES
    if evidence.speed is not None:
        yield "speed.train_seconds", evidence.speed.train_seconds, MOST_SECONDS
        yield "speed.total_seconds", evidence.speed.total_seconds, MOST_SECONDS
    for name in ("graphs", "graph_breaks", "recompilations"):
        yield f"compiler.{name}", getattr(evidence.compiler, name), MOST_BYTES


def _check_compiler(evidence: Evidence, expected: Expectation) -> Iterator[Reason]:
    compiler, seed = evidence.compiler, expected.seed
    declared = expected.declaration.compiler
    if compiler.name != declared:
        yield failure(
            Code.COMPILER_DIFFERS,
            f"Seed {seed}: trained with compiler {clipped(compiler.name)!r}, "
            f"the workload declares {declared!r}.",
            seed=seed,
        )
    if declared == "eager" and compiler.ran:
        yield failure(
            Code.COMPILER_RAN_IN_EAGER,
            f"Seed {seed}: a compiler ran in an arm that is declared eager.",
            seed=seed,
        )
    if declared != "eager" and not compiler.ran:
        yield failure(
            Code.COMPILER_DID_NOT_RUN,
            f"Seed {seed}: the workload declares {declared!r}, but no graph was compiled.",
            seed=seed,
        )
    allowed = expected.settings.max_recompilations
    if compiler.recompilations > allowed:
        yield failure(
            Code.COMPILER_RECOMPILED,
            f"Seed {seed}: {clipped(str(compiler.recompilations))} recompilations, "
            f"max_recompilations is {allowed}: shapes or settings change during training.",
            seed=seed,
            allowed=allowed,
        )


def _check_recipe(evidence: Evidence, expected: Expectation) -> Iterator[Reason]:
    declared = expected.declaration
    for key, wanted, code in (
        ("batch_size", declared.batch_size, Code.RECIPE_BATCH_SIZE),
        ("learning_rate", declared.learning_rate, Code.RECIPE_LEARNING_RATE),
        ("precision", declared.precision, Code.RECIPE_PRECISION),
    ):
        found = evidence.recipe.get(key)
        if isinstance(found, bool) or found != wanted:
            yield failure(
                code,
                f"Seed {expected.seed}: trained with {key} {clipped(repr(found))}, "
                f"the workload declares {wanted!r}.",
                seed=expected.seed,
            )


def _check_steps(evidence: Evidence, steps: Steps, seed: int) -> Iterator[Reason]:
    told = evidence.recipe.get("steps")
    if isinstance(told, bool) or told != len(steps.loss) or len(steps.loss) == 0:
        yield failure(
            Code.STEPS_COUNT,
            f"Seed {seed}: steps.npz has {len(steps.loss)} steps, "
            f"the job's recipe says {clipped(repr(told))}.",
            seed=seed,
            steps=len(steps.loss),
        )
    bad_losses = np.flatnonzero(~(np.abs(steps.loss) <= MOST_LOSS))
    if len(bad_losses):
        first = int(bad_losses[0])
        yield failure(
            Code.STEPS_LOSS_NOT_FINITE,
            f"Seed {seed}: the training loss is {steps.loss[first]:g} at step {first} "
            f"and unusable at {len(bad_losses)} steps in all.",
            seed=seed,
            step=first,
        )
    bad_seconds = np.flatnonzero(~((steps.seconds > 0.0) & (steps.seconds <= MOST_SECONDS)))
    if len(bad_seconds):
        first = int(bad_seconds[0])
        yield failure(
            Code.STEPS_SECONDS_INVALID,
            f"Seed {seed}: step {first} took {steps.seconds[first]:g} seconds, "
            f"and {len(bad_seconds)} step times in all are no duration.",
            seed=seed,
            step=first,
        )


def _check_examples(
    evidence: Evidence, examples: Examples, expected: Expectation
) -> Iterator[Reason]:
    """Check the rows in stages: a later check needs what an earlier one has found to hold."""
    seed = expected.seed
    stages: tuple[Callable[[Examples, int], Iterator[Reason]], ...] = (
        _check_rows,
        _check_values,
        _check_meaning,
    )
    for stage in stages:
        found = tuple(stage(examples, seed))
        yield from found
        if found:
            return
    recorded = evidence.digests.get("examples")
    if recorded and recorded != examples_digest(examples):
        yield failure(
            Code.DIGEST_DIFFERS,
            f"Seed {seed}: the ids and labels in examples.npz are not those whose digest "
            "evidence.json holds.",
            seed=seed,
        )
    for metric in expected.settings.metrics:
        yield from _check_reported(metric, evidence, examples, seed)


def _check_rows(examples: Examples, seed: int) -> Iterator[Reason]:
    rows, classes = examples.scores.shape
    if rows < 2 or classes < 2:
        yield failure(
            Code.EXAMPLES_TOO_FEW,
            f"Seed {seed}: examples.npz has {rows} examples and {classes} classes, "
            "two of each are the least that can be compared.",
            seed=seed,
            examples=rows,
        )
        return
    if not _is_text(examples.ids):
        yield failure(
            Code.EXAMPLES_IDS_UNREADABLE,
            f"Seed {seed}: the example ids in examples.npz are not valid text.",
            seed=seed,
        )
    elif len(np.unique(examples.ids)) != rows:
        yield failure(
            Code.EXAMPLES_IDS_REPEAT,
            f"Seed {seed}: {rows - len(np.unique(examples.ids))} example ids repeat.",
            seed=seed,
        )
    if examples.labels.min() < 0 or examples.labels.max() >= classes:
        yield failure(
            Code.EXAMPLES_LABEL_RANGE,
            f"Seed {seed}: labels reach from {examples.labels.min()} to {examples.labels.max()}, "
            f"but there are scores for {classes} classes.",
            seed=seed,
        )


def _is_text(ids: npt.NDArray[np.str_]) -> bool:
    try:
        "".join(ids.tolist()).encode()
    except ValueError:  # code points that are no characters, or halves of a surrogate pair
        return False
    return True


def _check_values(examples: Examples, seed: int) -> Iterator[Reason]:
    bad = ~np.isfinite(examples.scores).all(axis=1) | ~np.isfinite(examples.losses)
    if bad.any():
        yield failure(
            Code.EXAMPLES_NOT_FINITE,
            f"Seed {seed}: {int(bad.sum())} examples have a score or loss that is not a number, "
            f"the first is {clipped(repr(str(examples.ids[int(bad.argmax())])))}.",
            seed=seed,
            examples=int(bad.sum()),
        )


def _check_meaning(examples: Examples, seed: int) -> Iterator[Reason]:
    scores = examples.scores
    within = ((scores >= 0.0) & (scores <= 1.0 + SUM_TOLERANCE)).all(axis=1)
    # Clipped, so that a huge score overflows no sum; its row is bad by `within` already.
    bad = ~within | (np.abs(scores.clip(-1.0, 2.0).sum(axis=1) - 1.0) > SUM_TOLERANCE)
    if bad.any():
        yield failure(
            Code.EXAMPLES_NOT_PROBABILITIES,
            f"Seed {seed}: the scores of {int(bad.sum())} examples are not probabilities that "
            f"sum to one, the first is {clipped(repr(str(examples.ids[int(bad.argmax())])))}.",
            seed=seed,
            examples=int(bad.sum()),
        )
    likelihood = scores[np.arange(len(scores)), examples.labels]
    known = likelihood >= SMALLEST_COMPARED_SCORE
    implied = -np.log(np.where(known, likelihood, 1.0))
    odd = ~((examples.losses >= -LOSS_TOLERANCE) & (examples.losses <= MOST_LOSS))
    odd |= known & (np.abs(examples.losses - implied) > LOSS_TOLERANCE)
    if odd.any():
        yield failure(
            Code.EXAMPLES_LOSSES_DISAGREE,
            f"Seed {seed}: the losses of {int(odd.sum())} examples are not the negative logarithm "
            "of their label's score.",
            seed=seed,
            examples=int(odd.sum()),
        )


def _check_reported(
    metric: MetricName, evidence: Evidence, examples: Examples, seed: int
) -> Iterator[Reason]:
    reported = evidence.metrics.get(metric)
    if reported is None:
        yield failure(
            Code.METRIC_MISSING,
            f"Seed {seed}: the job did not report {metric}, which the gate guards.",
            seed=seed,
            metric=metric,
        )
        return
    computed = metric_value(metric, examples)
    # A reported value that is not finite has its own reason, and disagrees with everything here.
    if not abs(reported - computed) <= REPORTED_TOLERANCE * max(1.0, abs(computed)):
        yield failure(
            Code.METRIC_DISAGREES,
            f"Seed {seed}: the job reported {metric} {reported:.6g}, "
            f"its own examples give {computed:.6g}.",
            seed=seed,
            metric=metric,
            computed=computed,
        )
