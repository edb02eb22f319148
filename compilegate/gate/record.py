"""One record: is a replicate's evidence usable by itself? Every check has a code of its own.

It is this job's, whole and plausible; the compiler ran as declared; the recipe is the declared one;
its times agree with each other; its examples are what they say they are. What needs several records
side by side is in `records`. A check names a mistake that a colleague could make; what is merely
odd is a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from compilegate.gate.evidence import MissingEvidenceError, UndeclaredEvidenceError, numbers
from compilegate.gate.findings import (
    SCORES,
    TIMES,
    Code,
    Finding,
    Number,
    Subject,
    clipped,
    counted,
)
from compilegate.gate.settings import ArmDeclaration, GateSettings
from compilegate.job.contract import PADDING, SPEED_METRIC
from compilegate.job.endings import WRONG_ARITHMETIC
from compilegate.job.evidence import (
    CompilerRecord,
    Evidence,
    EvidenceError,
    EvidenceOrigin,
    EvidenceRecord,
    Examples,
    FloatArray,
    Scalar,
    SpeedRecord,
    Steps,
    above_one,
    column_digests,
    examples_digest,
    outputs_digest,
)
from compilegate.job.evidence.parity import EPSILON
from compilegate.job.evidence.steady import (
    MOST_SECONDS,
    Mask,
    added_seconds,
    are_durations,
    steady_mask,
)

T = TypeVar("T")
SHA256 = re.compile(r"[0-9a-f]{64}")
REQUIRED_DIGESTS = ("data", "model", "steps")
COLUMNS = {"steps": TIMES, "outputs": SCORES, "parity": "", "paired": TIMES, "trained_on": ""}
"""Digest name to the part of the evidence that a changed column makes unusable."""
INDUCTOR = "inductor"
CALLS = "graph_calls"
"""Key of the proof: calls of compiled graphs."""
LEAST_CALLED = 0.5
"""The share of the steps in which a compiled graph is called at least."""
LEAST_SPEED = 1e-9
"""Samples per second: less is not a measurement, and overflows ratios."""
LONGEST_FAILURE = 1_500
"""Characters of why a job ended: a sentence of the job's, which reports show whole."""
MOST_BYTES = 1e16
"""The most of anything that is counted: beyond it a number is damage."""
NO_AMOUNTS = ("seed", "schema_version")
LEAST_BYTES, LEAST_BYTES_OF_PROCESS = 1000, 1_000_000
"""Fewer bytes are another unit: no training, and no process after its imports, fits."""
MOST_LOSS = 1e6
"""A million nats: beyond them a number is damage, not a measurement."""
MOST_VALUE = 1e30
"""The largest prediction and reported metric: fourth powers of it are still finite."""
SUM_TOLERANCE = 0.01
"""Tolerance for the sum of a row of probabilities (bfloat16 softmax, hundreds of classes)."""
LOSS_TOLERANCE = 0.02
"""Nats between a recorded loss and the one its score implies; bfloat16 scores stay within."""
ROUNDING = 0.01
"""Relative difference between two clocks of one job."""
MOST_BETWEEN_STEPS = 0.5
"""The share of a training that may pass between its steps: evaluation, logging, checkpoints. What
a candidate loses there counts against its speed (`speed`)."""
MOST_TIMES_TRAINING, MOST_SECONDS_BESIDE = 10.0, 6 * 3600.0
"""How long a job may take beside its training: data, start and evaluation, a short night of them,
and ten times the training."""
SPEED_TOLERANCE = 1.25
"""The factor by which reported samples per second may be off: other steps may count as steady."""
MOST_EXAMPLES = 10**12
PART, LEAST_STEPS = 5, 20
"""Losses are compared between the first and the last fifth of the steps, if there are so many."""
LEAST_FALL = 0.05
"""The share of the loss at first that a training loses which has learnt anything; a guess."""


class Known:
    """Results computed from columns that several records share, by the arrays' identity."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, ...], tuple[object, object]] = {}

    def of(self, columns: tuple[object, ...], compute: Callable[[], T]) -> T:
        """The result of `compute`, which runs once for these very columns."""
        key = tuple(map(id, columns))
        if key not in self._found:  # the columns are kept, so that their ids stay theirs
            self._found[key] = (columns, compute())
        return cast("T", self._found[key][1])


@dataclass(frozen=True)
class Expected:
    """The experiment's expectations of one replicate."""

    about: Subject
    arm: str
    origin: str
    """The required origin of its evidence."""
    declaration: ArmDeclaration
    settings: GateSettings
    job: str | None
    """The training job whose evidence this must be; None when any job will do."""
    lost: bool
    """Whether its job left no model by the machine's doing."""
    known: Known


def unusable(about: Subject, error: EvidenceError | None) -> Finding:
    """The finding about a replicate that has no record; `error` is None where nothing is there."""
    if isinstance(error, UndeclaredEvidenceError):
        return about.notes(
            Code.EVIDENCE_UNDECLARED, "trained, but the experiment does not list it."
        )
    if error is None:
        return about.fails(Code.EVIDENCE_MISSING, "there is no evidence.")
    missing = isinstance(error, MissingEvidenceError)
    code = Code.EVIDENCE_MISSING if missing else Code.EVIDENCE_UNREADABLE
    return about.fails(code, f"{clipped(str(error))}.", spoils=(SCORES, TIMES))


def check_record(record: EvidenceRecord, expected: Expected) -> list[Finding]:
    """Everything that is wrong with, or odd about, one replicate's evidence."""
    evidence, about = record.evidence, expected.about
    identity = list(_check_identity(evidence, expected))
    ended = _check_ending(record, expected)
    if ended is not None:
        return [*identity, ended]
    found = [*identity, *_check_numbers(evidence, about), *_check_digests(record, about)]
    if evidence.origin == EvidenceOrigin.MEASURED and not evidence.environment:
        text = "the environment is empty: record library versions and hardware."
        found.append(about.fails(Code.EVIDENCE_LACKING, text, spoils=()))
    if evidence.compiler is not None:
        found += _check_compiler(evidence, evidence.compiler, expected)
        found += _check_recipe(evidence, expected.declaration, about)
    if record.steps is not None:
        found += _check_steps(evidence, record.steps, expected)
    if record.examples is not None:
        found += _check_examples(evidence, record.examples, expected)
    found += _check_reported(evidence, expected, has_examples=record.examples is not None)
    return found


def _check_identity(evidence: Evidence, expected: Expected) -> Iterator[Finding]:
    about = expected.about
    if (evidence.arm, evidence.seed) != (expected.arm, about.seed):
        owner = f"arm {clipped(evidence.arm)!r}, seed {clipped(str(evidence.seed))}"
        yield about.fails(Code.EVIDENCE_OF_ANOTHER, f"this evidence belongs to {owner}.")
    if expected.job is not None and evidence.job != expected.job:
        yield about.fails(
            Code.EVIDENCE_OF_ANOTHER,
            f"this evidence belongs to training job {clipped(evidence.job)!r}; this execution's "
            f"job is {expected.job!r}.",
        )


def _check_ending(record: EvidenceRecord, expected: Expected) -> Finding | None:
    """Why nothing of the record can be judged; None where it can."""
    evidence, about = record.evidence, expected.about
    if evidence.failure is not None:
        why = clipped(evidence.failure, LONGEST_FAILURE)
        if expected.lost:
            text = f"the job left no model, which says nothing about the arm: {why}"
            return about.leaves_open(Code.EVIDENCE_LOST, text)
        if evidence.ending == WRONG_ARITHMETIC.name:
            return about.fails(Code.ARM_FAILED, f"{why}.")
        return about.fails(Code.ARM_FAILED, f"the arm could not be trained: {why}")
    if evidence.origin != expected.origin:
        text = (
            f"the evidence is {clipped(evidence.origin)!r}, the experiment asks for "
            f"{expected.origin!r}."
        )
        return about.fails(Code.EVIDENCE_LACKING, text)
    if evidence.origin == EvidenceOrigin.MEASURED and record.steps is None:
        return about.fails(Code.EVIDENCE_LACKING, "the evidence has no steps.")
    return None


def _check_numbers(evidence: Evidence, about: Subject) -> Iterator[Finding]:
    for name, value in evidence.metrics.items():
        speed = name == SPEED_METRIC
        least = LEAST_SPEED if speed else -MOST_VALUE
        if not least <= value <= MOST_VALUE:  # False for NaN too
            yield about.fails(
                Code.EVIDENCE_UNREADABLE,
                f"the job reported {clipped(name)} as {value}, expected a number from {least:.0e} "
                f"to {MOST_VALUE:.0e}.",
                spoils=(TIMES,) if speed else (),
                metric=clipped(name, 60),
            )
    for path, value in numbers(evidence):
        name = path.replace(": ", ".")
        most = MOST_SECONDS if name.endswith("seconds") else MOST_BYTES
        if name not in NO_AMOUNTS and not 0.0 <= value <= most:
            text = f"{name} is {clipped(str(value))}, expected 0 to {most:.0e}."
            yield about.fails(Code.EVIDENCE_UNREADABLE, text, spoils=(TIMES,))
    memory = evidence.peak_memory_bytes
    least_bytes = LEAST_BYTES_OF_PROCESS if evidence.memory_of == "process" else LEAST_BYTES
    if memory is not None and 0 <= memory < least_bytes:
        text = f"peak_memory_bytes is {memory:,}, less than any training takes: is it in bytes?"
        yield about.fails(Code.EVIDENCE_UNREADABLE, text)


def _check_digests(record: EvidenceRecord, about: Subject) -> Iterator[Finding]:
    """Whether files are those that the job wrote: a file copied beside another record is not."""
    digests = record.evidence.digests
    for name in REQUIRED_DIGESTS if record.evidence.origin == EvidenceOrigin.MEASURED else ():
        if not SHA256.fullmatch(digests.get(name, "")):
            text = f"evidence.json has no sha256 of {name!r} among its digests."
            yield about.fails(Code.EVIDENCE_UNREADABLE, text)
    if not record.as_written:
        text = "evidence.json has changed since it was written: its sha256 is not that of its keys."
        yield about.fails(Code.EVIDENCE_CHANGED, text)
    found = column_digests(record.steps, None, record.parity, record.paired, record.trained_on)
    if record.examples is not None:
        found["outputs"] = outputs_digest(record.examples)
    for name, spoilt in COLUMNS.items():
        # A digest of columns that are not there is one that differs as well.
        if name in digests and digests[name] != found.get(name):
            file = "examples" if name == "outputs" else name
            text = (
                f"{file}.npz has changed since it was written: its sha256 is not the recorded one."
            )
            spoils = (spoilt,) if spoilt else ()
            yield about.fails(Code.EVIDENCE_CHANGED, text, spoils=spoils, columns=name)


def _check_compiler(
    evidence: Evidence, compiler: CompilerRecord, expected: Expected
) -> Iterator[Finding]:
    about, declared = expected.about, expected.declaration.compiler
    if compiler.name != declared:
        found = clipped(compiler.name)
        text = f"trained with compiler {found!r}, the workload declares {declared!r}."
        yield about.fails(Code.COMPILER_DIFFERS, text)
    backend = compiler.proof.get("backend", INDUCTOR)
    if compiler.name == INDUCTOR and isinstance(backend, str) and backend != INDUCTOR:
        text = f"compiled by backend {clipped(backend, 60)!r}, the workload declares {INDUCTOR!r}."
        yield about.fails(Code.COMPILER_DIFFERS, text)
    if declared == "eager":
        if compiler.ran or compiler.graphs:
            text = "a compiler ran, the workload declares 'eager'."
            yield about.fails(Code.COMPILER_DIFFERS, text)
    elif not compiler.ran or not compiler.graphs:
        left = compiler.proof.get("left_to_eager")
        why = f"not all ran compiled: {clipped(str(left))}" if left else "no graph was compiled"
        text = f"the workload declares {declared!r}, but {why}."
        # What torch could not capture shows nothing of the compiler; a script that never compiles
        # what it trains has to be changed.
        yield (about.leaves_open if left else about.fails)(Code.COMPILER_DID_NOT_RUN, text)
    elif not _shows_something(compiler.proof):
        text = "a compiler ran, but compiler.proof holds no count above zero."
        yield about.fails(Code.COMPILER_DID_NOT_RUN, text)
    else:
        yield from _check_calls(evidence, compiler, about)
    allowed = expected.settings.max_recompilations
    if compiler.recompilations:
        lengths = 0 if evidence.padding is None else len(evidence.padding.lengths)
        beside = f" beside the {lengths} declared lengths" if lengths > 1 else ""
        times = clipped(str(compiler.recompilations))
        text = f"{times} recompilations{beside}: shapes or settings changed."
        if allowed is not None and compiler.recompilations > allowed:
            text = f"{text} max_recompilations is {allowed}."
            found = compiler.recompilations
            yield about.fails(Code.COMPILER_RECOMPILED, text, allowed=allowed, recompilations=found)
        else:
            yield about.notes(Code.COMPILER_RECOMPILED, text)


def _check_calls(evidence: Evidence, compiler: CompilerRecord, about: Subject) -> Iterator[Finding]:
    """Whether compiled graphs were called in the steps, and not only in a few before they gave way
    to eager ones."""
    calls, steps = compiler.proof.get(CALLS), evidence.recipe.get("steps")
    if not isinstance(calls, int) or isinstance(calls, bool) or not isinstance(steps, int):
        return
    steps -= max((each.step for each in evidence.resumed), default=0)
    if calls < LEAST_CALLED * steps:
        text = f"compiled graphs were called {calls:,} times in {steps:,} steps: most ran eagerly."
        yield about.leaves_open(Code.COMPILER_DID_NOT_RUN, text, calls=calls, steps=steps)


def _shows_something(proof: Mapping[str, Scalar]) -> bool:
    """Whether anything was counted, or seen to be so: names and versions say what was asked for."""
    counted = [
        value.isdecimal() and value.isascii() and int(value[:20]) > 0
        if isinstance(value, str)
        else bool(value)
        for value in proof.values()
    ]
    return proof.get(CALLS) != 0 and any(counted)


def _check_recipe(
    evidence: Evidence, declared: ArmDeclaration, about: Subject
) -> Iterator[Finding]:
    recipe = {"world_size": 1, **evidence.recipe}  # of other programs: one process, if not recorded
    wanted: dict[str, Number] = {
        "world_size": declared.world_size,
        "batch_size": declared.batch_size,
        "learning_rate": declared.learning_rate,
    }
    if declared.padding is not None:
        wanted[PADDING] = declared.padding
    for key, value in wanted.items():
        found = recipe.get(key)
        if isinstance(found, bool) or found != value:
            text = f"trained with {key} {clipped(repr(found))}, the workload declares {value!r}."
            spoils = (TIMES,) if key in ("world_size", "batch_size") else ()
            yield about.fails(Code.RECIPE_DIFFERS, text, spoils=spoils, key=key)
    if recipe.get("precision") not in EPSILON:  # another than the declared one: `records`
        found = clipped(repr(recipe.get("precision")))
        text = f"trained with precision {found}, the workload declares {declared.precision!r}."
        yield about.fails(Code.RECIPE_DIFFERS, text, key="precision")


def _check_steps(evidence: Evidence, steps: Steps, expected: Expected) -> Iterator[Finding]:
    about, count = expected.about, len(steps.loss)
    recorded = evidence.recipe.get("steps")
    if isinstance(recorded, bool) or recorded != count or count == 0:
        text = f"steps.npz has {count} steps, the job's recipe says {clipped(repr(recorded))}."
        yield about.fails(Code.STEPS_COUNT, text, steps=count)
    bad_losses = np.flatnonzero(~(np.abs(steps.loss) <= MOST_LOSS))
    if len(bad_losses):
        first = int(bad_losses[0])
        text = (
            f"the training loss is {steps.loss[first]:g} at step {first}, and NaN, infinite or "
            f"huge at {len(bad_losses)} steps in all."
        )
        yield about.fails(Code.STEPS_LOSS_NOT_FINITE, text, step=first)
    elif count > 2 and float(np.ptp(steps.loss)) == 0.0:
        if expected.settings.loss_must_fall:
            text = f"the training loss is {steps.loss[0]:.5g} at every step: write each step's own."
            yield about.fails(Code.STEPS_LOSS_CONSTANT, text)
    elif is_flat(steps.loss):
        first, last = (float(it.mean()) for it in ends(steps.loss))
        text = f"training loss did not decrease (start {first:.5g}, end {last:.5g})."
        yield about.notes(Code.STEPS_LOSS_FLAT, text)
    bad_seconds = np.flatnonzero(~are_durations(steps.seconds))
    if len(bad_seconds):
        first = int(bad_seconds[0])
        text = (
            f"step {first} took {steps.seconds[first]:g} seconds, and {len(bad_seconds)} step "
            "times in all are not plausible."
        )
        yield about.fails(Code.STEPS_SECONDS_INVALID, text, step=first)
    elif count and evidence.speed is not None:
        yield from _check_times(evidence, evidence.speed, steps, expected)


def ends(losses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The first and the last fifth of the losses."""
    return losses[: len(losses) // PART], losses[-(len(losses) // PART) :]


def is_flat(losses: FloatArray) -> bool:
    """Whether the losses do not fall from the first fifth of the steps to the last beyond what the
    spread of their means explains, and cannot have fallen by a twentieth either."""
    if len(losses) < LEAST_STEPS:
        return False
    first, last = ends(losses)
    noise = float(np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / len(first)))
    fall = float(first.mean() - last.mean())
    return fall <= noise and max(fall, 0.0) + 2.0 * noise <= LEAST_FALL * abs(first.mean())


def _check_times(
    evidence: Evidence, speed: SpeedRecord, steps: Steps, expected: Expected
) -> Iterator[Finding]:
    """Whether steps, training, the whole job and its speed agree: steps that a GPU was not waited
    for do not add up to the training; other units do not either."""
    about, in_steps, trained = expected.about, float(steps.seconds.sum()), speed.train_seconds
    text = None
    if trained < (1.0 - ROUNDING) * in_steps:
        text = f"training took {trained:.4g} s (speed.train_seconds), its steps {in_steps:.4g} s."
    else:
        known = in_steps + outside_of_steps(evidence, steps)
        if trained - known > max(MOST_BETWEEN_STEPS * trained, 0.5):
            text = (
                f"training took {trained:.4g} s, of which {trained - known:.4g} s are unaccounted "
                "for. Wait for the GPU before a step's time is taken, or time steps with "
                "compilegate.job."
            )
    least, most = (1.0 - ROUNDING) * trained, trained * MOST_TIMES_TRAINING + MOST_SECONDS_BESIDE
    if text is not None:
        yield about.fails(Code.STEPS_TIMES_DISAGREE, text, spoils=(TIMES,), in_steps=in_steps)
    elif not least <= speed.total_seconds <= most:
        text = (
            f"the job took {speed.total_seconds:,.4g} s (speed.total_seconds) and the training in "
            f"it {trained:,.4g} s: are both in seconds?"
        )
        yield about.fails(Code.STEPS_TIMES_DISAGREE, text)
    yield from _check_reported_speed(evidence, speed, steps, expected)


def outside_of_steps(evidence: Evidence, steps: Steps) -> float:
    """Seconds of the training that the record says were in no step: lost machines, checkpoints,
    and compilation before the first step."""
    found = sum(each.lost_seconds for each in evidence.resumed)
    if evidence.checkpoints is not None:
        found += evidence.checkpoints.seconds
    if evidence.compiler is not None:
        before = evidence.compiler.compile_seconds - added_seconds(evidence, steps)
        found += max(before, 0.0)
    return found


def _check_reported_speed(
    evidence: Evidence, speed: SpeedRecord, steps: Steps, expected: Expected
) -> Iterator[Finding]:
    size = examples_of_a_step(evidence, expected.declaration)
    seconds = steps.seconds
    parts = (seconds[steady_mask(evidence, steps)], seconds[speed.steady_from :], seconds)
    rates = [size / float(each.mean()) for each in parts if each.size]
    reported = speed.samples_per_second
    if not min(rates) / SPEED_TOLERANCE <= reported <= max(rates) * SPEED_TOLERANCE:
        text = (
            f"the job reports {reported:.4g} samples a second; steps of {size} samples make "
            f"{rates[0]:.4g}."
        )
        found = {"reported": reported, "computed": rates[0]}
        yield expected.about.fails(Code.STEPS_TIMES_DISAGREE, text, **found)


def examples_of_a_step(evidence: Evidence, declaration: ArmDeclaration) -> int:
    """Training examples of an optimizer's step, of all processes and micro-batches."""
    found = evidence.recipe.get("global_batch_size")
    if isinstance(found, int) and not isinstance(found, bool) and 0 < found <= MOST_EXAMPLES:
        return found
    return declaration.global_batch_size


def examples_of_steps(records: Iterable[EvidenceRecord], declaration: ArmDeclaration) -> int:
    """The same of an arm: what all its jobs say, where it is a multiple of the declared batch
    (micro-batches are whole ones), or else the declared batch."""
    found = {examples_of_a_step(record.evidence, declaration) for record in records}
    size = found.pop() if len(found) == 1 else declaration.global_batch_size
    return declaration.global_batch_size if size % declaration.global_batch_size else size


def _check_examples(evidence: Evidence, examples: Examples, expected: Expected) -> list[Finding]:
    """Check the rows in stages: a later check needs what an earlier one has found to hold."""
    about, known = expected.about, expected.known
    found = [*_check_rows(examples, about, known)] or [*_check_values(examples, about)]
    if not found and examples.scores.shape[1]:
        found = [*_check_probabilities(examples, about)]
    if found:
        return found
    recorded = evidence.digests.get("examples")
    columns = (examples_digest, examples.ids, examples.labels, examples.targets, examples.inputs)
    if recorded and recorded != known.of(columns, lambda: examples_digest(examples)):
        text = "the ids and labels in examples.npz have changed since they were written."
        found.append(about.fails(Code.EVIDENCE_CHANGED, text, spoils=(SCORES,), columns="examples"))
    if examples.scores.shape[1]:
        return [*found, *_compare_losses(examples, about)]
    rows = len(examples.losses)
    if examples.predictions is None and rows >= LEAST_STEPS and not np.ptp(examples.losses):
        text = f"all {rows:,} examples have the same loss; write per-example losses, not the mean."
        found.append(about.leaves_open(Code.EXAMPLES_LOSSES_EQUAL, text, examples=rows))
    return found


def _check_rows(examples: Examples, about: Subject, known: Known) -> Iterator[Finding]:
    rows, classes = examples.scores.shape
    # Without classes there are numbers that the model predicts, or losses alone.
    if rows < 2 or classes == 1:
        found = f"{counted(rows, 'example')} and {classes} classes"
        text = f"examples.npz has {found}, expected two or more."
        yield about.fails(Code.EXAMPLES_MALFORMED, text, examples=rows)
        return
    repeated = known.of((_repeated, examples.ids), lambda: _repeated(examples))
    if repeated is None:
        yield about.fails(Code.EXAMPLES_MALFORMED, "example ids are not valid text.")
    elif repeated:
        text = f"{repeated} example ids repeat: number rows across workers, not in each."
        yield about.fails(Code.EXAMPLES_MALFORMED, text, examples=repeated)
    low, high = int(examples.labels.min()), int(examples.labels.max())
    if low < 0 or high >= max(classes, 1):
        text = f"labels reach from {low} to {high}, expected 0 to {max(classes, 1) - 1}."
        yield about.fails(Code.EXAMPLES_MALFORMED, text)


def _repeated(examples: Examples) -> int | None:
    """The number of ids that repeat another one; None where they are not valid text."""
    texts = examples.ids.tolist()
    try:
        "".join(texts).encode()
    except ValueError:  # code points that are no characters, or halves of a surrogate pair
        return None
    return len(texts) - len(set(texts))  # far faster than sorting strings


def _check_values(examples: Examples, about: Subject) -> Iterator[Finding]:
    bad: Mask = np.zeros(len(examples.ids), dtype=np.bool_)
    for column in (examples.losses, examples.targets, examples.predictions):
        if column is not None:
            bad |= ~(np.abs(column) <= MOST_VALUE)
    if not np.isfinite(examples.scores).all():  # all at once, since rows are slow to go over
        bad |= ~np.isfinite(examples.scores).all(axis=1)
    yield from _malformed(about, examples, bad, "{rows} NaN, infinite or huge, first {first}.")


def _check_probabilities(examples: Examples, about: Subject) -> Iterator[Finding]:
    scores = examples.scores
    bad = np.zeros(len(scores), dtype=np.bool_)
    if scores.min() < 0.0 or scores.max() > 1.0 + SUM_TOLERANCE:
        bad |= ((scores < 0.0) | (scores > 1.0 + SUM_TOLERANCE)).any(axis=1)
        scores = scores.clip(-1.0, 2.0)  # so that a huge score, bad as it is, overflows no sum
    # As a product, since numpy's sum over short rows takes ten times as long.
    bad |= np.abs(scores @ np.ones(scores.shape[1]) - 1.0) > SUM_TOLERANCE
    text = "scores of {rows} are not probabilities that sum to one, first {first}: apply softmax."
    yield from _malformed(about, examples, bad, text)
    odd = ~((examples.losses >= -LOSS_TOLERANCE) & (examples.losses <= MOST_LOSS))
    yield from _malformed(about, examples, odd, "losses of {rows} are not nats, first {first}.")


def _malformed(about: Subject, examples: Examples, bad: Mask, text: str) -> Iterator[Finding]:
    """A finding about the bad rows, if any: `text` with their number and the first id."""
    if bad.any():
        count, first = int(bad.sum()), clipped(repr(str(examples.ids[int(bad.argmax())])))
        text = text.format(rows=counted(count, "example"), first=first)
        yield about.fails(Code.EXAMPLES_MALFORMED, text, examples=count)


def _compare_losses(examples: Examples, about: Subject) -> Iterator[Finding]:
    """Losses that are not those of the scores, as with label smoothing: the gate's own decide."""
    likelihood = examples.scores[np.arange(len(examples.labels)), examples.labels]
    exact = likelihood > 1e-6
    implied = -np.log(np.where(exact, likelihood, 1.0))
    odd = int((exact & (np.abs(examples.losses - implied) > LOSS_TOLERANCE)).sum())
    if odd:
        text = (
            f"losses of {counted(odd, 'example')} are not the negative logarithm of their label's "
            "score; log_loss was computed from the scores."
        )
        yield about.notes(Code.EXAMPLES_LOSSES_DISAGREE, text, examples=odd)


def _check_reported(
    evidence: Evidence, expected: Expected, *, has_examples: bool
) -> Iterator[Finding]:
    """Whether the job has all that the gate guards: numbers that it reports, or examples."""
    about = expected.about
    for metric, guard in expected.settings.metrics.items():
        if not guard.reported:
            if not has_examples and not guard.watched:
                text = f"{metric} is computed from examples, and the job wrote none."
                yield about.fails(Code.EVIDENCE_LACKING, text, spoils=(), metric=metric)
            continue
        value = evidence.metrics.get(metric)
        if value is None and not guard.watched:
            text = f"the job did not report {metric}, which the gate guards."
            yield about.fails(Code.EVIDENCE_LACKING, text, spoils=(), metric=metric)
        elif value is not None and above_one(metric, value):
            text = (
                f"the job reported {metric} as {value:.6g}, expected a fraction of 1 at most; "
                "divide percentages by 100, or name the metric in `percent` of [program]."
            )
            yield about.fails(Code.METRIC_ABOVE_ONE, text, spoils=(SCORES,), metric=metric)
    for part in expected.settings.slices:
        if not has_examples and not part.watched:
            text = f"{part.metric} of {part.column!r} needs examples, and the job wrote none."
            yield about.fails(Code.EVIDENCE_LACKING, text, spoils=(), metric=part.metric)
