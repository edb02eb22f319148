"""Integrity: is one replicate's evidence usable? Every check fails closed, with its own code.

These checks look at one record and what the workload declares about it: that it is this job's,
whole and plausible, that the compiler really ran, and that it did not recompile. Those of its
examples are in `examples`. What needs several records side by side (duplicates, the same examples,
the same data) is in `agreement`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

import numpy as np

from compilegate.evidence import (
    CompilerRecord,
    Evidence,
    EvidenceError,
    EvidenceRecord,
    MissingEvidenceError,
    Origin,
    PaddingRecord,
    Scalar,
    Steps,
    TruncatedEvidenceError,
    UndeclaredEvidenceError,
    column_digests,
    outputs_digest,
)
from compilegate.gate.integrity.examples import (
    MOST_LOSS,
    MOST_VALUE,
    check_examples,
    check_reported,
)
from compilegate.gate.integrity.expectation import Expectation
from compilegate.gate.integrity.models.courses import is_flat
from compilegate.gate.integrity.timing import check_cache, check_times
from compilegate.gate.reasons import Code, Outcome, Reason, Subject, clipped
from compilegate.gate.settings import ArmDeclaration
from compilegate.gate.speed.steady import MOST_SECONDS, are_durations
from compilegate.job.evidence.ratios import EPSILON
from compilegate.job.names import AVERAGE_SPEED_METRIC, PADDING, SPEED_METRIC

REQUIRED_DIGESTS = {
    Origin.MEASURED: ("data", "model", "examples", "outputs", "steps"),
    Origin.PRINTED: (),
    Origin.SCORED: ("model", "examples", "outputs"),
    Origin.ABSENT: (),
}
OF_EXAMPLES = frozenset({"examples", "outputs"})
LEAST_SPEED = 1e-9
"""Samples per second: less is not a measurement, and overflows ratios."""
_OF_NOTHING = {
    hashlib.sha256(each).hexdigest() for each in (b"", b"\n", b"{}", b"[]", b"null", b"None", b"0")
}
SHA256 = re.compile(r"[0-9a-f]{64}")

INDUCTOR = "inductor"
CALLS = "graph_calls"
"""How often compiled graphs were called; what is never called has computed nothing."""
LEAST_CALLED = 0.5
"""The share of the steps in which a compiled graph is called at least."""
MOST_GRAPHS = 1000
MOST_BREAKS = 200
"""What the worst of models do not reach that a compiler takes as a model, and not in crumbs."""
LEAST_BYTES = 1000
LEAST_BYTES_OF_PROCESS = 1_000_000
"""Less is another unit: no training fits, and no process that has imported anything."""
MOST_BYTES = 1e16
"""Ten petabytes: beyond them a number is damage, not a measurement."""


def unusable(about: Subject, error: EvidenceError | None) -> Reason:
    """The reason for a replicate that has no record: missing (None), truncated or unreadable."""
    if error is None:
        return about.fails(Code.EVIDENCE_MISSING, "there is no evidence.")
    code = Code.EVIDENCE_UNREADABLE
    if isinstance(error, MissingEvidenceError):
        code = Code.EVIDENCE_MISSING
    elif isinstance(error, TruncatedEvidenceError):
        code = Code.EVIDENCE_TRUNCATED
    elif isinstance(error, UndeclaredEvidenceError):
        code = Code.EVIDENCE_UNDECLARED
    return about.fails(code, f"{clipped(str(error))}.")


def check_record(record: EvidenceRecord, expected: Expectation) -> tuple[Reason, ...]:
    """Everything that makes one replicate's evidence unusable; empty when it is sound."""
    evidence, about = record.evidence, expected.about
    identity = tuple(_check_identity(evidence, expected))
    if evidence.failure is not None:
        if expected.lost:
            told = (
                f"the job left no model, which says nothing of the arm: {clipped(evidence.failure)}"
            )
            return (*identity, about.stays_open(Code.EVIDENCE_LOST, told))
        told = f"the arm could not be trained: {clipped(evidence.failure)}"
        return (*identity, about.fails(Code.ARM_FAILED, told))
    if evidence.origin not in expected.origins:
        wanted = " or ".join(map(repr, expected.origins))
        told = f"the evidence is {clipped(evidence.origin)!r}, the experiment asks for {wanted}."
        return (*identity, about.fails(Code.EVIDENCE_LACKING, told))
    lacking = _lacking(record, expected)
    if lacking is not None:
        told = f"the evidence has no {lacking}."
        return (*identity, about.fails(Code.EVIDENCE_LACKING, told))
    found = [
        *identity,
        *_check_scalars(evidence, about),
        *_check_digests(record, about),
        *_check_provenance(evidence, about),
    ]
    if expected.declaration is not None and evidence.compiler is not None:
        found += _check_compiler(
            evidence.compiler, evidence.padding, expected, expected.declaration.compiler
        )
        found += _check_recipe(evidence, expected.declaration, about)
    if evidence.compile_cache is not None:
        found += check_cache(evidence.compile_cache, about)
    if record.steps is not None:
        found += _check_steps(evidence, record.steps, expected)
        found += _check_calls(evidence, len(record.steps.loss), about)
    if record.examples is not None:
        found += check_examples(evidence, record.examples, expected)
    elif evidence.origin in (Origin.PRINTED, Origin.MEASURED):
        found += check_reported(evidence, expected)
    return tuple(found)


def _lacking(record: EvidenceRecord, expected: Expectation) -> str | None:
    """What the record lacks, so that nothing of it can be judged."""
    if record.evidence.origin != Origin.MEASURED:
        return None
    if record.steps is None:
        return "steps"
    # Models of different executions are compared by examples alone.
    return "examples" if record.examples is None and expected.declaration is None else None


def _check_identity(evidence: Evidence, expected: Expectation) -> Iterator[Reason]:
    about = expected.about
    if (evidence.arm, evidence.seed) != (expected.arm, about.seed):
        yield about.fails(
            Code.EVIDENCE_SWAPPED,
            f"this evidence belongs to arm {clipped(evidence.arm)!r}, seed "
            f"{clipped(str(evidence.seed))}.",
        )
    if expected.job is not None and evidence.job != expected.job:
        yield about.fails(
            Code.EVIDENCE_WRONG_JOB,
            f"this evidence belongs to training job {clipped(evidence.job)!r}; this execution's "
            f"job is {expected.job!r}.",
        )


def _check_scalars(evidence: Evidence, about: Subject) -> Iterator[Reason]:
    for name, value in evidence.metrics.items():
        least = LEAST_SPEED if name in (SPEED_METRIC, AVERAGE_SPEED_METRIC) else -MOST_VALUE
        if not least <= value <= MOST_VALUE:  # False for NaN too
            yield about.fails(
                Code.METRIC_NOT_FINITE,
                f"the job reported {clipped(name)} as {value}, allowed: a number from {least:.0e} "
                f"to {MOST_VALUE:.0e}.",
                metric=clipped(name, 60),
            )
    for name, value, most in _magnitudes(evidence):
        if not 0.0 <= value <= most:  # False for NaN too
            yield about.fails(
                Code.EVIDENCE_IMPLAUSIBLE,
                f"{name} is {clipped(str(value))}, which is implausible (0 to {most:.0e}).",
            )


def _check_digests(record: EvidenceRecord, about: Subject) -> Iterator[Reason]:
    """The digest of the example ids is checked with them, since it needs readable ids."""
    evidence = record.evidence
    probes = {"parity": record.parity, "paired": record.paired}
    there = [name for name, columns in probes.items() if columns is not None]
    required = [*REQUIRED_DIGESTS[evidence.origin], *there]
    if record.examples is None:
        required = [name for name in required if name not in OF_EXAMPLES]
    for name in required:
        if not SHA256.fullmatch(evidence.digests.get(name, "")):
            yield about.fails(
                Code.DIGEST_MISSING,
                f"evidence.json has no sha256 of {name!r} among its digests.",
            )
    if not record.as_written:
        yield about.fails(
            Code.DIGEST_DIFFERS,
            "evidence.json has changed since it was written: its sha256 is not that of its keys.",
        )
    found = column_digests(record.steps, None, record.parity, record.paired, record.trained_on)
    if record.examples is not None:
        found["outputs"] = outputs_digest(record.examples)
    files = {"steps": "steps", "outputs": "examples", "parity": "parity", "paired": "paired"}
    files["trained_on"] = "trained_on"
    for name, file in files.items():
        # A digest of columns that are not there is one that differs as well.
        if name in evidence.digests and evidence.digests[name] != found.get(name):
            yield about.fails(
                Code.DIGEST_DIFFERS,
                f"the columns of {file}.npz do not match their digest in evidence.json ({name}).",
                columns=name,
            )


def _check_provenance(evidence: Evidence, about: Subject) -> Iterator[Reason]:
    """Whether a job that measured itself says where, and of what."""
    if evidence.origin != Origin.MEASURED:
        return
    if not evidence.environment:
        yield about.fails(
            Code.EVIDENCE_NO_ENVIRONMENT,
            "the environment is empty: which libraries and which hardware it trained with is "
            "unknown, so nothing shows that the arms differ by their compiler alone.",
        )
    for name in ("data", "model"):
        if is_placeholder(evidence.digests.get(name, "")):
            yield about.fails(
                Code.DIGEST_PLACEHOLDER,
                f"the sha256 of {name!r} is {evidence.digests[name][:8]}..., which is that of "
                "nothing.",
            )
    if evidence.digests.get("data", "") == evidence.digests.get("model"):
        told = "the model's sha256 is that of the data: one of them is not what it says."
        yield about.fails(Code.DIGEST_PLACEHOLDER, told)
    of_process = evidence.memory_of == "process"
    least = LEAST_BYTES_OF_PROCESS if of_process else LEAST_BYTES
    if evidence.peak_memory_bytes is not None and 0 <= evidence.peak_memory_bytes < least:
        yield about.fails(
            Code.EVIDENCE_IMPLAUSIBLE,
            f"peak_memory_bytes is {evidence.peak_memory_bytes:,}, and no training takes less than "
            f"{least:,}: leave out what was not measured.",
        )


def is_placeholder(digest: str) -> bool:
    """Whether it is a digest of nothing, or stands in for one: a pattern that repeats."""
    pattern = any(digest == digest[:length] * (64 // length) for length in (1, 2, 4, 8, 16))
    return digest in _OF_NOTHING or (digest != "" and pattern)


def _magnitudes(evidence: Evidence) -> Iterator[tuple[str, float, float]]:
    compiler = evidence.compiler
    if compiler is not None:
        yield "compiler.compile_seconds", compiler.compile_seconds, MOST_SECONDS
        for name in ("graphs", "graph_breaks", "recompilations"):
            yield f"compiler.{name}", getattr(compiler, name), MOST_BYTES
    yield "peak_memory_bytes", evidence.peak_memory_bytes or 0, MOST_BYTES
    if evidence.speed is not None:
        yield "speed.train_seconds", evidence.speed.train_seconds, MOST_SECONDS
        yield "speed.total_seconds", evidence.speed.total_seconds, MOST_SECONDS
    yield from _magnitudes_of_probes(evidence)
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


def _magnitudes_of_probes(evidence: Evidence) -> Iterator[tuple[str, float, float]]:
    for name, probe in (("parity", evidence.parity), ("paired_speed", evidence.paired_speed)):
        if probe is not None:
            yield f"{name}.seconds", probe.seconds, MOST_SECONDS
    if evidence.paired_speed is not None:
        for name in ("baseline_batch_size", "candidate_batch_size", "steps_per_block"):
            yield f"paired_speed.{name}", getattr(evidence.paired_speed, name), MOST_BYTES


def _check_compiler(
    compiler: CompilerRecord,
    padding: PaddingRecord | None,
    expected: Expectation,
    declared: str,
) -> Iterator[Reason]:
    about = expected.about
    if compiler.name != declared:
        yield about.fails(
            Code.COMPILER_DIFFERS,
            f"trained with compiler {clipped(compiler.name)!r}, "
            f"the workload declares {declared!r}.",
        )
    backend = compiler.proof.get("backend", INDUCTOR)
    if compiler.name == INDUCTOR and isinstance(backend, str) and backend != INDUCTOR:
        yield about.fails(
            Code.COMPILER_DIFFERS,
            f"trained with compiler {INDUCTOR!r}, and its proof names the backend "
            f"{clipped(backend, 60)!r}: declare what ran.",
        )
    if declared == "eager" and (compiler.ran or compiler.graphs):
        yield about.fails(
            Code.COMPILER_RAN_IN_EAGER,
            "a compiler ran in an arm that is declared eager.",
        )
    if declared != "eager" and not compiler.ran:
        yield about.fails(
            Code.COMPILER_DID_NOT_RUN,
            f"the workload declares {declared!r}, but no graph was compiled.",
        )
    yield from _check_proof(compiler, declared, about)
    allowed = expected.settings.max_recompilations
    if compiler.recompilations > allowed:
        yield about.fails(
            Code.COMPILER_RECOMPILED,
            f"{clipped(str(compiler.recompilations))} recompilations{_shapes(padding)}, "
            f"max_recompilations is {allowed}: shapes or settings change during training.",
            allowed=allowed,
        )


def _check_proof(compiler: CompilerRecord, declared: str, about: Subject) -> Iterator[Reason]:
    """Whether what a compiler that ran has left is there: graphs, and what was seen of them."""
    if declared == "eager" or not compiler.ran:
        return
    lacking = [] if compiler.graphs else ["no graph was counted (compiler.graphs is 0)"]
    if not _shows_something(compiler.proof):
        lacking.append("nothing was observed of it (compiler.proof holds no count above zero)")
    if lacking:
        yield about.fails(
            Code.COMPILER_NO_PROOF,
            f"the job says that its compiler ran, and {' and '.join(lacking)}.",
            graphs=compiler.graphs,
        )
    if compiler.graphs > MOST_GRAPHS or compiler.graph_breaks > MOST_BREAKS:
        breaks, graphs = (
            clipped(f"{each:,}", 40) for each in (compiler.graph_breaks, compiler.graphs)
        )
        yield Reason(
            Code.COMPILER_IN_PIECES,
            Outcome.INCONCLUSIVE,
            f"Seed {about.seed}: the compiler counted {graphs} graphs and {breaks} graph breaks; "
            f"more than {MOST_GRAPHS:,} or {MOST_BREAKS} are no model that was compiled. See what "
            "it gives up on with `compilegate check`, and what is counted.",
            {"seed": about.seed},
        )


def _check_calls(evidence: Evidence, steps: int, about: Subject) -> Iterator[Reason]:
    """Whether compiled graphs were called in the steps, and not only in a few before they gave
    way to eager ones."""
    compiler = evidence.compiler
    calls = None if compiler is None or not compiler.ran else compiler.proof.get(CALLS)
    of_this_process = steps - max((each.step for each in evidence.resumed), default=0)
    if not isinstance(calls, int) or isinstance(calls, bool) or calls <= 0:
        return
    if calls < LEAST_CALLED * of_this_process:
        yield Reason(
            Code.COMPILER_FEW_CALLS,
            Outcome.INCONCLUSIVE,
            f"Seed {about.seed}: compiled graphs were called {calls:,} times in "
            f"{of_this_process:,} steps: most ran in eager mode. See what the compiler "
            "gives up on with `compilegate check`.",
            {"seed": about.seed, "calls": calls, "steps": of_this_process},
        )


def _shows_something(proof: Mapping[str, Scalar]) -> bool:
    """Whether anything was counted, or seen to be so: names and versions say what was asked for."""
    if proof.get(CALLS) == 0:
        return False
    flags = [each for each in proof.values() if isinstance(each, bool)]
    counts = [count for each in proof.values() for count in _count(each)]
    return any(counts or flags)


def _count(value: Scalar) -> Iterator[float]:
    if isinstance(value, str) and value.isdecimal() and value.isascii():
        yield float(value[:20])
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def _shapes(record: PaddingRecord | None) -> str:
    """What a recompilation is counted beside, where steps have several declared shapes."""
    if record is None or len(record.lengths) < 2:
        return ""
    return f" beside the {len(record.lengths)} declared lengths"


def _check_recipe(evidence: Evidence, declared: ArmDeclaration, about: Subject) -> Iterator[Reason]:
    recipe = {"world_size": 1, **evidence.recipe}  # of other programs: one process, if not said
    for key, wanted, code in (
        ("world_size", declared.world_size, Code.RECIPE_WORLD_SIZE),
        ("batch_size", declared.batch_size, Code.RECIPE_BATCH_SIZE),
        ("learning_rate", declared.learning_rate, Code.RECIPE_LEARNING_RATE),
        *([] if declared.padding is None else [(PADDING, declared.padding, Code.RECIPE_PADDING)]),
    ):
        found = recipe.get(key)
        if isinstance(found, bool) or found != wanted:
            yield about.fails(
                code,
                f"trained with {key} {clipped(repr(found))}, the workload declares {wanted!r}.",
            )
    if recipe.get("precision") not in EPSILON:  # another than the declared one: `precision`
        yield about.fails(
            Code.RECIPE_PRECISION,
            f"trained with precision {clipped(repr(recipe.get('precision')))}, the workload "
            f"declares {declared.precision!r}.",
        )
    record = evidence.padding
    if record is not None and record.padding != recipe.get(PADDING):
        yield about.fails(
            Code.EVIDENCE_IMPLAUSIBLE,
            f"padding was recorded as {record.padding!r}, and the recipe says "
            f"{clipped(repr(recipe.get(PADDING)))}.",
        )


def _check_steps(evidence: Evidence, steps: Steps, expected: Expectation) -> Iterator[Reason]:
    about = expected.about
    told = evidence.recipe.get("steps")
    if isinstance(told, bool) or told != len(steps.loss) or len(steps.loss) == 0:
        yield about.fails(
            Code.STEPS_COUNT,
            f"steps.npz has {len(steps.loss)} steps, the job's recipe says {clipped(repr(told))}.",
            steps=len(steps.loss),
        )
    bad_losses = np.flatnonzero(~(np.abs(steps.loss) <= MOST_LOSS))
    if len(bad_losses):
        first = int(bad_losses[0])
        yield about.fails(
            Code.STEPS_LOSS_NOT_FINITE,
            f"the training loss is {steps.loss[first]:g} at step {first} "
            f"and unusable at {len(bad_losses)} steps in all.",
            step=first,
        )
    elif expected.settings.loss_must_fall and is_flat(steps.loss):
        yield about.fails(
            Code.STEPS_LOSS_FLAT,
            f"the training loss does not fall: {steps.loss[: len(steps.loss) // 5].mean():.5g} on "
            f"average at first, {steps.loss[-(len(steps.loss) // 5) :].mean():.5g} at last. If "
            "it need not fall, set loss_must_fall = false.",
        )
    bad_seconds = np.flatnonzero(~are_durations(steps.seconds))
    if len(bad_seconds):
        first = int(bad_seconds[0])
        yield about.fails(
            Code.STEPS_SECONDS_INVALID,
            f"step {first} took {steps.seconds[first]:g} seconds, "
            f"and {len(bad_seconds)} step times in all are no duration.",
            step=first,
        )
        return
    yield from check_times(evidence, steps, expected.declaration, about)
