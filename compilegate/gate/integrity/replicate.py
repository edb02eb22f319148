"""Integrity: is one replicate's evidence usable? Every check fails closed, with its own code.

These checks look at one record and what the workload declares about it; those of its examples are
in `examples_integrity`. What needs several records side by side (duplicates, the same examples, the
same data) is in `agreement`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from compilegate.evidence import (
    Evidence,
    EvidenceError,
    EvidenceRecord,
    FloatArray,
    MissingEvidenceError,
    Steps,
    TruncatedEvidenceError,
    UndeclaredEvidenceError,
    column_digests,
    outputs_digest,
)
from compilegate.gate.integrity.examples import MOST_LOSS, MOST_VALUE, check_examples
from compilegate.gate.integrity.expectation import Expectation
from compilegate.gate.reasons import Code, Reason, clipped, failure
from compilegate.gate.settings import ArmDeclaration

REQUIRED_DIGESTS = ("data", "model", "examples", "outputs", "steps")
SHA256 = re.compile(r"[0-9a-f]{64}")

LEAST_STEP_SECONDS = 1e-9
MOST_SECONDS = 1e8
MOST_BYTES = 1e16
"""A nanosecond, three years, ten petabytes: beyond them a number is damage, not a measurement."""


def unusable(seed: int, error: EvidenceError | None) -> Reason:
    """The reason for a replicate that has no record: missing (None), truncated or unreadable."""
    if error is None:
        return failure(Code.EVIDENCE_MISSING, f"Seed {seed}: there is no evidence.", seed=seed)
    code = Code.EVIDENCE_UNREADABLE
    if isinstance(error, MissingEvidenceError):
        code = Code.EVIDENCE_MISSING
    elif isinstance(error, TruncatedEvidenceError):
        code = Code.EVIDENCE_TRUNCATED
    elif isinstance(error, UndeclaredEvidenceError):
        code = Code.EVIDENCE_UNDECLARED
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
        *_check_digests(record, expected.seed),
        *_check_declared(evidence, expected),
        *_check_steps(evidence, record.steps, expected.seed),
        *check_examples(evidence, record.examples, expected),
    )


def are_durations(seconds: FloatArray) -> npt.NDArray[np.bool_]:
    """(steps,) which of them a step can have taken."""
    plausible: npt.NDArray[np.bool_] = (seconds >= LEAST_STEP_SECONDS) & (seconds <= MOST_SECONDS)
    return plausible


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
        if not abs(value) <= MOST_VALUE:  # False for NaN too
            yield failure(
                Code.METRIC_NOT_FINITE,
                f"Seed {seed}: the job reported {clipped(name)} as {value}, "
                f"allowed: a number up to {MOST_VALUE:.0e}.",
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


def _check_digests(record: EvidenceRecord, seed: int) -> Iterator[Reason]:
    """That of the example ids is checked with them, since it takes readable ids."""
    evidence = record.evidence
    required = (*REQUIRED_DIGESTS, *(() if record.parity is None else ("parity",)))
    for name in required:
        if not SHA256.fullmatch(evidence.digests.get(name, "")):
            yield failure(
                Code.DIGEST_MISSING,
                f"Seed {seed}: evidence.json has no sha256 of {name!r} among its digests.",
                seed=seed,
            )
    if not record.as_written:
        yield failure(
            Code.DIGEST_DIFFERS,
            f"Seed {seed}: evidence.json is not what was written: it does not hold the sha256 of "
            "its other keys.",
            seed=seed,
        )
    found = column_digests(record.steps, None, record.parity)
    if record.examples is not None:
        found["outputs"] = outputs_digest(record.examples)
    for name, file in (("steps", "steps"), ("outputs", "examples"), ("parity", "parity")):
        # A digest of parity errors that are not there is one that differs as well.
        if name in evidence.digests and evidence.digests[name] != found.get(name):
            yield failure(
                Code.DIGEST_DIFFERS,
                f"Seed {seed}: the columns of {file}.npz are not those whose digest evidence.json "
                f"holds ({name}).",
                seed=seed,
            )


def _magnitudes(evidence: Evidence) -> Iterator[tuple[str, float, float]]:
    yield "compiler.compile_seconds", evidence.compiler.compile_seconds, MOST_SECONDS
    yield "peak_memory_bytes", evidence.peak_memory_bytes, MOST_BYTES
    if evidence.speed is not None:
        yield "speed.train_seconds", evidence.speed.train_seconds, MOST_SECONDS
        yield "speed.total_seconds", evidence.speed.total_seconds, MOST_SECONDS
    if evidence.parity is not None:
        yield "parity.seconds", evidence.parity.seconds, MOST_SECONDS
    cache = evidence.compile_cache
    if cache is not None:
        for name in ("load_seconds", "cold_compile_seconds", "cold_first_step_seconds"):
            yield f"compile_cache.{name}", getattr(cache, name) or 0.0, MOST_SECONDS
        for name in ("hits", "misses", "loaded_bytes", "saved_bytes"):
            yield f"compile_cache.{name}", getattr(cache, name), MOST_BYTES
    if evidence.checkpoints is not None:
        yield "checkpoints.seconds", evidence.checkpoints.seconds, MOST_SECONDS
        for each in evidence.resumed:
            yield "checkpoints.resumed.lost_seconds", each.lost_seconds, MOST_SECONDS
    for name in ("graphs", "graph_breaks", "recompilations"):
        yield f"compiler.{name}", getattr(evidence.compiler, name), MOST_BYTES


def _check_declared(evidence: Evidence, expected: Expectation) -> Iterator[Reason]:
    if expected.declaration is not None:
        yield from _check_compiler(evidence, expected, expected.declaration.compiler)
        yield from _check_recipe(evidence, expected.declaration, expected.seed)


def _check_compiler(evidence: Evidence, expected: Expectation, declared: str) -> Iterator[Reason]:
    compiler, seed = evidence.compiler, expected.seed
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


def _check_recipe(evidence: Evidence, declared: ArmDeclaration, seed: int) -> Iterator[Reason]:
    recipe = {"world_size": 1, **evidence.recipe}  # of other programs: one process, if not said
    for key, wanted, code in (
        ("world_size", declared.world_size, Code.RECIPE_WORLD_SIZE),
        ("batch_size", declared.batch_size, Code.RECIPE_BATCH_SIZE),
        ("learning_rate", declared.learning_rate, Code.RECIPE_LEARNING_RATE),
        ("precision", declared.precision, Code.RECIPE_PRECISION),
    ):
        found = recipe.get(key)
        if isinstance(found, bool) or found != wanted:
            yield failure(
                code,
                f"Seed {seed}: trained with {key} {clipped(repr(found))}, "
                f"the workload declares {wanted!r}.",
                seed=seed,
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
    yield from _check_step_times(evidence, steps, seed)


def _check_step_times(evidence: Evidence, steps: Steps, seed: int) -> Iterator[Reason]:
    bad_seconds = np.flatnonzero(~are_durations(steps.seconds))
    if len(bad_seconds):
        first = int(bad_seconds[0])
        yield failure(
            Code.STEPS_SECONDS_INVALID,
            f"Seed {seed}: step {first} took {steps.seconds[first]:g} seconds, "
            f"and {len(bad_seconds)} step times in all are no duration.",
            seed=seed,
            step=first,
        )
        return
    told_seconds = 0.0 if evidence.speed is None else evidence.speed.train_seconds
    in_steps = float(steps.seconds.sum())
    if told_seconds < 0.99 * in_steps:
        yield failure(
            Code.EVIDENCE_IMPLAUSIBLE,
            f"Seed {seed}: speed.train_seconds is {told_seconds:g}, but the steps in steps.npz "
            f"took {in_steps:g} s.",
            seed=seed,
        )
