"""Mistakes that colleagues make, each with its code, the arm that it spoils, and the outcome.

Each row builds on a sound execution whose candidate passes; what is changed is changed with all
that follows from it (digests, sums), so that nothing but the mistake itself can be found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest

from compilegate.gate.evidence import take_rows
from compilegate.gate.findings import Code, Note, Outcome, Reason
from compilegate.gate.verdict import Verdict
from compilegate.job.endings import ARM, ENDINGS, MACHINE, NEED, Ending
from compilegate.job.evidence import (
    CheckpointRecord,
    EvidenceError,
    EvidenceOrigin,
    Examples,
    Resumption,
)
from compilegate.job.evidence.writing import hashed
from tests.gate.conftest import (
    SyntheticExecution,
    as_read,
    build_execution,
    classified,
    unclassified,
    with_digests,
)

ARMS, SEEDS = ("baseline", "fast"), (1, 2, 3)
BOTH = "baseline fast"
Change = Callable[[SyntheticExecution], object]
LOSS = {"loss": {"direction": "lower", "margin": 0.1}}
BLEU = {"bleu": {"direction": "higher", "margin": 0.5, "reported": True}}
ACCURACY = {"accuracy": {"direction": "higher", "margin": 0.01}}
SLICE = {"column": "language", "metric": "accuracy", "margin": 0.03}
TEXTS = [f"text {index}" for index in range(2000)]
LANGUAGES = np.array(["de", "en", "en", "en"] * 500)


def at(place: Any, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The column with this value at this place."""

    def changed(column: np.ndarray) -> np.ndarray:
        column = column.copy()
        column[place] = value
        return column

    return changed


Edit = Callable[[SyntheticExecution, str, int], object]
"""A change of one job, by its arm and seed."""


def of_jobs(edit: Edit, arms: str = BOTH) -> Change:
    """The same edit of all jobs of the arm, or of both."""
    return lambda e: [edit(e, *key) for key in list(e.records) if key[0] in arms.split()]


def record_with(**parts: Any) -> Edit:
    """Put other parts into a record, of which its evidence knows nothing."""

    def change(e: SyntheticExecution, arm: str, seed: int) -> None:
        record = e.record(arm, seed)
        found = {key: it(getattr(record, key)) if callable(it) else it for key, it in parts.items()}
        e.records[arm, seed] = dataclasses.replace(record, **found)

    return change


def missing(e: SyntheticExecution, arm: str, seed: int) -> None:
    del e.records[arm, seed]


def unreadable(e: SyntheticExecution, arm: str, seed: int) -> None:
    e.records[arm, seed] = EvidenceError("evidence.json is not readable JSON")


def the_job_of_another_seed(e: SyntheticExecution, arm: str, seed: int) -> None:
    e.alter(arm, seed, job=e.record(arm, 1).evidence.job)


def not_trained(e: SyntheticExecution, arm: str, seed: int) -> None:
    e.fail(arm, seed, "the loss is nan in step 4")


def another_label(e: SyntheticExecution, arm: str, seed: int) -> None:
    examples = e.examples(arm, seed)
    labels = at(5, (examples.labels[5] + 1) % 4)(examples.labels)
    e.put(arm, seed, examples=classified(labels, examples.scores))


def padded_otherwise(e: SyntheticExecution, arm: str, seed: int) -> None:
    for name in ARMS:
        e.declare(name, padding="buckets")
        e.alter_all(name, recipe__padding="buckets")
    e.alter(arm, seed, recipe__padding="max")


def rows(chosen: Any) -> Callable[[Examples], Examples]:
    return lambda examples: take_rows(examples, chosen)


def column(**changed: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Columns changed, of which no digest is taken."""
    return lambda it: dataclasses.replace(
        it, **{name: change(getattr(it, name)) for name, change in changed.items()}
    )


ZEROS, WRONG = "0" * 64, np.full((2, 3), 1e-3)
LOST = CheckpointRecord(1, 0.1, None, (Resumption(3, 5, 1e300),))
DAMAGE: dict[str, tuple[Code, Any]] = {
    "it is gone": (Code.EVIDENCE_MISSING, missing),
    "no JSON": (Code.EVIDENCE_UNREADABLE, unreadable),
    "printed metrics alone": (Code.EVIDENCE_LACKING, {"origin": EvidenceOrigin.PRINTED}),
    "no steps": (Code.EVIDENCE_LACKING, record_with(steps=None)),
    "no examples": (Code.EVIDENCE_LACKING, record_with(examples=None)),
    "an empty environment": (Code.EVIDENCE_LACKING, {"environment": {}}),
    "of another seed": (Code.EVIDENCE_OF_ANOTHER, {"seed": 77}),
    "of another arm": (Code.EVIDENCE_OF_ANOTHER, {"arm": "other"}),
    "the job of another seed": (Code.EVIDENCE_DUPLICATED, the_job_of_another_seed),
    "too much memory": (Code.EVIDENCE_UNREADABLE, {"peak_memory_bytes": 10**400}),
    "memory in megabytes": (Code.EVIDENCE_UNREADABLE, {"peak_memory_bytes": 5000}),
    "lost for ever": (Code.EVIDENCE_UNREADABLE, {"checkpoints": LOST}),
    "a metric too large": (Code.EVIDENCE_UNREADABLE, {"metrics__x": 1e300}),
    "a metric that is none": (Code.EVIDENCE_UNREADABLE, {"metrics__accuracy": np.nan}),
    "a model without a digest": (Code.EVIDENCE_UNREADABLE, {"digests__model": None}),
    "steps without a digest": (Code.EVIDENCE_UNREADABLE, {"digests__steps": None}),
    "an edited document": (Code.EVIDENCE_CHANGED, record_with(as_written=False)),
    "edited labels": (Code.EVIDENCE_CHANGED, {"digests__examples": ZEROS}),
    "edited outputs": (Code.EVIDENCE_CHANGED, {"digests__outputs": ZEROS}),
    "edited steps": (Code.EVIDENCE_CHANGED, {"digests__steps": ZEROS}),
    "pairs taken away": (Code.EVIDENCE_CHANGED, {"digests__paired": ZEROS}),
    "not trained": (Code.ARM_FAILED, not_trained),
    "other data": (Code.DATA_DIFFERS, {"digests__data": ZEROS}),
    "a step less": (Code.STEPS_COUNT, {"recipe__steps": 61}),
    "uncounted steps": (Code.STEPS_COUNT, {"recipe__steps": None}),
    "a loss that is none": (Code.STEPS_LOSS_NOT_FINITE, {"steps__loss": at(7, np.nan)}),
    "ten million nats": (Code.STEPS_LOSS_NOT_FINITE, {"steps__loss": at(7, 1e7)}),
    "one loss for all steps": (Code.STEPS_LOSS_CONSTANT, {"steps__loss": np.full(60, 0.7)}),
    "before its time": (Code.STEPS_SECONDS_INVALID, {"steps__seconds": at(7, -0.1)}),
    "a step of all time": (Code.STEPS_SECONDS_INVALID, {"steps__seconds": at(7, 1e300)}),
    "shorter than its steps": (Code.STEPS_TIMES_DISAGREE, {"speed__train_seconds": 0.5}),
    "shorter than its training": (Code.STEPS_TIMES_DISAGREE, {"speed__total_seconds": 0.1}),
    "a job of 1e6 seconds": (Code.STEPS_TIMES_DISAGREE, {"speed__total_seconds": 1e6}),
    "not batch over step": (
        Code.STEPS_TIMES_DISAGREE,
        {"speed__samples_per_second": lambda it: 4 * it},
    ),
    "one row": (Code.EXAMPLES_MALFORMED, record_with(examples=rows(slice(1)))),
    "no rows": (Code.EXAMPLES_MALFORMED, record_with(examples=rows(slice(0)))),
    "a score that is none": (Code.EXAMPLES_MALFORMED, {"examples__scores": at((5, 0), np.nan)}),
    "a score below zero": (Code.EXAMPLES_MALFORMED, {"examples__scores": at((5, 0), -0.2)}),
    "a huge score": (Code.EXAMPLES_MALFORMED, {"examples__scores": at((5, 0), 1e308)}),
    "before the softmax": (Code.EXAMPLES_MALFORMED, {"examples__scores": lambda it: 3.0 * it}),
    "losses below zero": (Code.EXAMPLES_MALFORMED, {"examples__losses": lambda it: it - 1.0}),
    "no such class": (Code.EXAMPLES_MALFORMED, record_with(examples=column(labels=at(5, 900)))),
    "ids of each worker": (
        Code.EXAMPLES_MALFORMED,
        {"examples__ids": np.array([f"row-{index % 500}" for index in range(2000)])},
    ),
    "half a surrogate pair": (
        Code.EXAMPLES_MALFORMED,
        record_with(examples=column(ids=at(5, "\ud800"))),
    ),
    "another example": (Code.EXAMPLES_DIFFER, {"examples__ids": at(5, "another")}),
    "another label": (Code.EXAMPLES_DIFFER, another_label),
    "one more class": (
        Code.EXAMPLES_DIFFER,
        {"examples__scores": lambda it: np.pad(it, ((0, 0), (0, 1)))},
    ),
    "categories of its own": (Code.EXAMPLES_DIFFER, {"examples__slices": {"language": LANGUAGES}}),
    "another compiler": (Code.COMPILER_DIFFERS, {"compiler__name": "xla"}),
    "another batch": (Code.RECIPE_DIFFERS, {"recipe__batch_size": 64}),
    "more processes": (Code.RECIPE_DIFFERS, {"recipe__world_size": 2}),
    "another rate": (Code.RECIPE_DIFFERS, {"recipe__learning_rate": 2e-3}),
    "a rate that is none": (Code.RECIPE_DIFFERS, {"recipe__learning_rate": np.nan}),
    "one job in bf16": (Code.RECIPE_DIFFERS, {"recipe__precision": "bf16"}),
    "no known precision": (Code.RECIPE_DIFFERS, {"recipe__precision": "fp8"}),
    "padded otherwise": (Code.RECIPE_DIFFERS, padded_otherwise),
}
"""Mistakes of one replicate, in whichever arm."""


@cache
def damaged(name: str, arm: str) -> Verdict:
    """The verdict on an execution of which one job of the arm is damaged."""
    execution, (_, change) = build_execution(), DAMAGE[name]
    change(execution, arm, 2) if callable(change) else execution.alter(arm, 2, **change)
    return execution.judge()


@dataclasses.dataclass(frozen=True)
class Row:
    """A change of a whole sound execution, and what the gate says of it."""

    code: Code | None
    """None, of oddities: nothing is said."""
    change: Change | None = None
    """None: the design alone is the matter."""
    arm: str = "fast"
    """The arm in which it is found."""
    outcome: Outcome = Outcome.FAIL
    """The candidate's."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What the execution is built with."""

    @cached_property
    def verdict(self) -> Verdict:
        """Its verdict, which the tests of all codes share."""
        execution = build_execution(**self.options)
        if self.change is not None:
            self.change(execution)
        return execution.judge()


def fails(code: Code, change: Change | None = None, arm: str = "fast", **options: Any) -> Row:
    return Row(code, change, arm, Outcome.FAIL, options)


def leaves_open(code: Code, change: Change | None = None, **options: Any) -> Row:
    return Row(code, change, "fast", Outcome.INCONCLUSIVE, options)


def every(arm: str, /, **changes: Any) -> Change:
    """The same change of all jobs of the arm, or of both."""
    return lambda e: e.alter_all(arm, **changes)


def one(arm: str, seed: int, /, **changes: Any) -> Change:
    return lambda e: e.alter(arm, seed, **changes)


def soft(e: SyntheticExecution, noise: float = 1.0) -> None:
    """Scores with digits of their own, as models have them, in place of two values."""
    for arm, seed in list(e.records):
        scores = e.examples(arm, seed).scores
        own = np.random.default_rng([seed, len(arm)]).normal(0.0, noise, scores.shape)
        shared = np.random.default_rng(seed).normal(0.0, noise, scores.shape)
        raised = scores * np.exp(0.3 * shared + 0.1 * own)
        e.put_scores(arm, seed, raised / raised.sum(axis=1, keepdims=True))


def copied(arm: str, seeds: Any, of: str, *, same_losses: bool) -> Change:
    """Outputs of other jobs, with the same training losses or with those of this training."""

    def change(e: SyntheticExecution) -> None:
        soft(e)
        for seed, source in seeds.items():
            if same_losses:
                e.alter(arm, seed, steps__loss=e.record(of, source).steps.loss)
            elif arm != of:
                e.alter(arm, seed, steps__loss=np.linspace(1.5, 0.3, 60))
            e.put(arm, seed, examples=e.examples(of, source))

    return change


def the_model_file_of_the_baseline(e: SyntheticExecution) -> None:
    model = e.record("baseline", 1).evidence.digests["model"]
    e.alter("fast", 1, steps__loss=np.linspace(1.5, 0.3, 60), digests__model=model)


def trained_on(ids: Any = None, inputs: Any = None, fast: Any = None) -> Change:
    """What all jobs say that they trained on; of the candidate's, `fast` inputs instead."""

    def change(e: SyntheticExecution, arm: str, seed: int) -> None:
        e.alter(arm, seed, examples__inputs=hashed(TEXTS))
        e.train_on(arm, seed, ids, fast if fast is not None and arm == "fast" else inputs)

    return of_jobs(change)


def inputs(change: Any) -> Change:
    """Hashes of inputs in all jobs, and others in one of the candidate's."""

    def changed(e: SyntheticExecution) -> None:
        e.alter_all(BOTH, examples__inputs=hashed(TEXTS))
        e.alter("fast", 2, examples__inputs=change)

    return changed


def losses_alone(constant: bool = False) -> Change:
    def change(e: SyntheticExecution, arm: str, seed: int) -> None:
        own = np.random.default_rng([seed, len(arm)]).normal(1.0, 0.02, 2000)
        losses = np.random.default_rng(1).gamma(2.0, 1.0, 2000) * own
        rows = np.full(2000, own.mean()) if constant else losses
        e.put(arm, seed, examples=unclassified(rows))

    return of_jobs(change)


def nothing_learnt(e: SyntheticExecution, arm: str, seed: int) -> None:
    noise = np.random.default_rng([seed, len(arm)]).lognormal(0.0, 0.01, (2000, 4))
    e.put_scores(arm, seed, noise / noise.sum(axis=1, keepdims=True))


def four_times_the_batch(e: SyntheticExecution) -> None:
    e.declare("fast", batch_size=128)
    e.alter_all("fast", recipe__batch_size=128, steps={})


def micro_batches(e: SyntheticExecution, arm: str, seed: int) -> None:
    steps = e.record(arm, seed).steps
    columns = {"loss": np.repeat(steps.loss, 4), "seconds": np.tile(steps.seconds / 4, 4)}
    e.put(arm, seed, steps=columns)


def wrong_at_times(e: SyntheticExecution, arm: str, seed: int) -> None:
    parity = e.record(arm, seed).parity
    names = ("eager", "repeated", "compiled")
    columns = {name: np.concatenate([getattr(parity, name)] * 2) for name in names}
    columns["compiled"][::2, 2] *= 1e5
    e.alter(arm, seed, parity__steps=4)
    e.put(arm, seed, parity=columns)


without_parity = of_jobs(SyntheticExecution.without_parity, "fast")


def the_loss_alone(e: SyntheticExecution, arm: str, seed: int) -> None:
    found = np.full((2, 1), 4e-7)
    columns = {"eager": found, "repeated": 0 * found, "compiled": 1.1 * found}
    e.put(arm, seed, parity={"tensors": np.array(["loss"]), **columns})


def wrong(places: Callable[[np.ndarray], np.ndarray], *seeds: int) -> Change:
    """Other answers at these places, with the losses that follow."""

    def change(e: SyntheticExecution) -> None:
        for seed in seeds:
            examples = e.examples("fast", seed)
            turned = np.roll(examples.scores, 1, axis=1)
            harmed = places(examples.scores.argmax(axis=1) == examples.labels)
            e.put_scores("fast", seed, np.where(harmed[:, None], turned, examples.scores))

    return change


def in_one_language(e: SyntheticExecution) -> None:
    e.alter_all(BOTH, examples__slices={"language": LANGUAGES})
    wrong(lambda right: (LANGUAGES == "de") & (np.arange(2000) % 40 == 0), *SEEDS)(e)


def categories(values: Any, name: str = "language") -> Change:
    return every(BOTH, examples__slices={name: np.array(values)})


def seconds_of(change: Callable[[np.ndarray, np.ndarray], tuple[Any, Any]], **speed: Any) -> Change:
    """Other step times in both arms, from the two that are there."""

    def changed(e: SyntheticExecution) -> None:
        for seed in SEEDS:
            found = change(*(e.seconds(arm, seed) for arm in ARMS))
            for arm, seconds in zip(ARMS, found, strict=True):
                e.alter(arm, seed, steps__seconds=seconds)
            for arm, steady_from in speed.items():
                e.alter(arm, seed, speed__steady_from=steady_from)

    return changed


def not_waited_for(e: SyntheticExecution) -> None:
    """Steps of a GPU, in a training that takes as long as eager's."""
    for seed in SEEDS:
        eager = e.record("baseline", seed).evidence.speed
        e.alter("fast", seed, steps__seconds=e.seconds("fast", seed) * 0.15)
        e.alter("fast", seed, speed__train_seconds=eager.train_seconds)
        e.alter("fast", seed, speed__total_seconds=eager.total_seconds)


def compiling(seconds: float, recorded: float) -> Change:
    return every(
        "fast",
        steps__seconds=lambda it: at(0, it[0] + seconds)(it),
        compiler__compile_seconds=recorded,
    )


def between_steps(e: SyntheticExecution, arm: str, seed: int) -> None:
    train = e.record(arm, seed).evidence.speed.train_seconds + 1.9
    e.alter(arm, seed, speed__train_seconds=train, speed__total_seconds=train + 3.0)


def uneven(e: SyntheticExecution) -> None:
    for seed, factor in zip(SEEDS, (0.9, 1.0, 1.4), strict=True):
        e.alter("fast", seed, steps__seconds=factor * e.seconds("fast", seed))


def busy(e: SyntheticExecution) -> None:
    uneven(e)
    e.alter_all(BOTH, checkup={"load": 9.6, "processors": 2, "steal": 0.12})


def few_steps(e: SyntheticExecution, arm: str, seed: int) -> None:
    steps = e.record(arm, seed).steps
    e.put(arm, seed, steps={"loss": steps.loss[:15], "seconds": steps.seconds[:15]})


def pairs(ratio: float) -> Change:
    return lambda e: [e.pair("fast", seed, ratio) for seed in SEEDS]


PROOF, REQUIRED = "compiler__proof", {"parity": {"required": True}}
MISTAKES: dict[str, Row] = {
    # Compilers.
    "compiled eager": fails(
        Code.COMPILER_DIFFERS, one("baseline", 3, compiler__ran=True), "baseline"
    ),
    "a backend that compiles nothing": fails(
        Code.COMPILER_DIFFERS, every("fast", **{PROOF: {"backend": "eager", "graph_calls": 60}})
    ),
    "nothing compiled": fails(Code.COMPILER_DID_NOT_RUN, one("fast", 3, compiler__ran=False)),
    "left to eager": leaves_open(
        Code.COMPILER_DID_NOT_RUN,
        one("fast", 3, compiler__ran=False, compiler__proof={"left_to_eager": "Net: an RNN"}),
    ),
    "no graphs": fails(Code.COMPILER_DID_NOT_RUN, one("fast", 3, compiler__graphs=0)),
    "a proof of names": fails(
        Code.COMPILER_DID_NOT_RUN,
        every("fast", **{PROOF: {"backend": "inductor", "torch": "2.13"}}),
    ),
    "graphs that nobody called": fails(
        Code.COMPILER_DID_NOT_RUN, every("fast", **{PROOF: {"graphs": 3, "graph_calls": 0}})
    ),
    "eager after three calls": leaves_open(
        Code.COMPILER_DID_NOT_RUN, every("fast", **{PROOF: {"graphs": 1, "graph_calls": 3}})
    ),
    "too many recompilations": fails(
        Code.COMPILER_RECOMPILED, one("fast", 2, compiler__recompilations=7), max_recompilations=2
    ),
    # Jobs and models.
    "the job of the baseline": fails(
        Code.EVIDENCE_DUPLICATED, one("fast", 2, job="train-baseline-2")
    ),
    "killed by the machine": leaves_open(
        Code.EVIDENCE_LOST, lambda e: e.fail("fast", 2, "it was killed", "killed")
    ),
    "a seed that is not passed on": leaves_open(
        Code.MODEL_SEED_UNUSED, copied("fast", {2: 1, 3: 1}, "fast", same_losses=True)
    ),
    "the same in the baseline": leaves_open(
        Code.MODEL_SEED_UNUSED, copied("baseline", {2: 1, 3: 1}, "baseline", same_losses=True)
    ),
    "checkpoints of the baseline": fails(
        Code.MODEL_OUTPUTS_OF_ANOTHER,
        copied("fast", {1: 1, 2: 2, 3: 3}, "baseline", same_losses=False),
    ),
    "its model file": fails(Code.MODEL_OUTPUTS_OF_ANOTHER, the_model_file_of_the_baseline),
    "a checkpoint of another seed": fails(
        Code.MODEL_OUTPUTS_OF_ANOTHER, copied("fast", {3: 1}, "fast", same_losses=False)
    ),
    "the same of the baseline": fails(
        Code.MODEL_OUTPUTS_OF_ANOTHER,
        copied("baseline", {3: 1}, "baseline", same_losses=False),
        "baseline",
    ),
    # Data.
    "trained on validation rows": fails(
        Code.DATA_TRAINED_ON,
        trained_on([*(f"doc-{it:05d}" for it in range(7)), *TEXTS]),
        "baseline",
    ),
    "under other ids": fails(Code.DATA_TRAINED_ON, trained_on(inputs=TEXTS[:1500]), "baseline"),
    "the candidate on more of them": fails(
        Code.DATA_TRAINED_ON, trained_on(inputs=TEXTS[:200], fast=TEXTS[:500])
    ),
    "inputs in another order": fails(Code.EXAMPLES_DIFFER, inputs(lambda it: np.roll(it, 1))),
    "a few other inputs": fails(Code.EXAMPLES_DIFFER, inputs(at(slice(9), 7))),
    "one loss for all rows": fails(
        Code.EXAMPLES_LOSSES_EQUAL, losses_alone(constant=True), "baseline", metrics=LOSS
    ),
    # Metrics.
    "percent": fails(
        Code.METRIC_ABOVE_ONE,
        every(BOTH, metrics__accuracy=95.3),
        "baseline",
        metrics={"accuracy": {**BLEU["bleu"], "margin": 0.3}},
    ),
    "squared errors of classes": fails(
        Code.METRIC_UNDEFINED,
        arm="baseline",
        metrics={**ACCURACY, "mse": {"direction": "lower", "margin": 0.1}},
    ),
    "an unreported metric": fails(
        Code.EVIDENCE_LACKING, every("baseline", metrics__bleu=27.1), metrics=BLEU
    ),
    "below the floor": fails(
        Code.METRIC_BELOW_FLOOR,
        arm="baseline",
        metrics={"accuracy": {**ACCURACY["accuracy"], "floor": 0.97}},
    ),
    "nothing learnt": fails(Code.METRIC_AT_CONSTANT, of_jobs(nothing_learnt), "baseline"),
    # What differs beside the compiler.
    "another library": fails(Code.CONFOUND_UNDECLARED, one("fast", 2, environment__torch="2.12")),
    "more cores": fails(Code.CONFOUND_UNDECLARED, every("fast", environment__cores_available=2)),
    "an undeclared recipe": fails(Code.CONFOUND_UNDECLARED, every("fast", recipe__epochs=4)),
    "a larger batch over as many steps": fails(Code.CONFOUND_EXAMPLES_SEEN, four_times_the_batch),
    "micro-batches as steps": fails(Code.CONFOUND_EXAMPLES_SEEN, of_jobs(micro_batches, "fast")),
    "the candidate alone in bf16": fails(
        Code.RECIPE_DIFFERS,
        every("fast", recipe__precision="bf16", recipe__autocast="bf16", parity__precision="bf16"),
    ),
    "other initial weights": leaves_open(
        Code.STEPS_OTHER_START, every("fast", steps__loss=np.linspace(2.9, 0.2, 60))
    ),
    "a baseline that was not trained": fails(
        Code.BASELINE_UNSOUND, lambda e: e.fail("baseline", 1, "the loss is nan")
    ),
    # Parity.
    "other arithmetic": fails(Code.PARITY_DIFFERS, one("fast", 2, errors__compiled=WRONG)),
    "no arithmetic": fails(Code.PARITY_DIFFERS, one("fast", 2, errors__compiled=np.nan * WRONG)),
    "other arithmetic at times": fails(Code.PARITY_DIFFERS, of_jobs(wrong_at_times, "fast")),
    "required and not measured": fails(Code.PARITY_CANNOT_TELL, without_parity, **REQUIRED),
    "required of zeros": fails(
        Code.PARITY_CANNOT_TELL, every("fast", errors__eager=0 * WRONG), **REQUIRED
    ),
    "required of the loss alone": fails(
        Code.PARITY_CANNOT_TELL, of_jobs(the_loss_alone, "fast"), **REQUIRED
    ),
    "required of few parameters": fails(
        Code.PARITY_CANNOT_TELL, every("fast", parity__compared_parameters=20), **REQUIRED
    ),
    # Quality.
    "worse": fails(Code.QUALITY_WORSE, worse_by=0.05),
    "worse by a single seed": fails(Code.QUALITY_WORSE, worse_by=0.1, seeds=(1,)),
    "worse in one language": fails(Code.QUALITY_WORSE, in_one_language, slices=[SLICE]),
    "few rows": leaves_open(Code.QUALITY_UNDECIDED, examples=200),
    "nearly worse": leaves_open(Code.QUALITY_UNDECIDED, worse_by=0.007, metrics=ACCURACY),
    "a single seed": leaves_open(Code.QUALITY_SINGLE_SEED, seeds=(1,)),
    "a released model far worse": fails(
        Code.QUALITY_RELEASED_WORSE,
        wrong(lambda right: right & (right.cumsum() <= 60), 1),
        seeds=tuple(range(1, 11)),
    ),
    "a rate that three seeds cannot show": leaves_open(
        Code.SEEDS_FAILURE_RATE, max_failure_rate=0.1
    ),
    "seeds that fail": fails(
        Code.SEEDS_FAILURE_RATE,
        wrong(np.ones_like, 1, 2, 3, 4),
        max_failure_rate=0.1,
        seeds=(1, 2, 3, 4, 5),
    ),
    "no such groups": fails(Code.GROUPS_MISSING, groups="patient"),
    "one group": leaves_open(
        Code.GROUPS_MISSING, categories(["first"] * 2000, "patient"), groups="patient"
    ),
    "no such slice": leaves_open(Code.SLICE_NOT_JUDGED, slices=[SLICE]),
    "a small slice": leaves_open(
        Code.SLICE_NOT_JUDGED, categories(["de"] * 1996 + ["fr"] * 4), slices=[SLICE]
    ),
    "a slice of identifiers": leaves_open(Code.SLICE_NOT_JUDGED, categories(TEXTS), slices=[SLICE]),
    # Memory and speed.
    "too much memory": fails(
        Code.MEMORY_INCREASED, one("fast", 2, peak_memory_bytes=9 * 10**8), max_memory_increase=0.2
    ),
    "memory of two kinds": leaves_open(
        Code.MEMORY_NOT_COMPARED, every("fast", memory_of="device"), max_memory_increase=0.2
    ),
    "memory of one arm": leaves_open(
        Code.MEMORY_NOT_COMPARED,
        every("fast", peak_memory_bytes=None, memory_of=None),
        max_memory_increase=0.2,
    ),
    "hardly faster": fails(Code.SPEED_BELOW_MINIMUM, speedup=1.05),
    "somewhat faster": fails(Code.SPEED_BELOW_MINIMUM, speedup=1.15),
    "a baseline that counts its first step": fails(
        Code.SPEED_BELOW_MINIMUM,
        seconds_of(lambda one, _: (at(0, 30.0)(one), 0.99 * one), baseline=0),
    ),
    "a candidate that counts its last steps": fails(
        Code.SPEED_BELOW_MINIMUM,
        seconds_of(lambda one, _: (one, one / np.repeat([1.0, 2.0], [50, 10])), fast=50),
    ),
    "a GPU that was not waited for": fails(Code.STEPS_TIMES_DISAGREE, not_waited_for),
    "five minutes of compiling": fails(Code.SPEED_NOT_REPAID, compiling(300.0, 0.0)),
    "compiling that a longer run repays": fails(Code.SPEED_NOT_REPAID, compiling(1.8, 2.0)),
    "time between the steps": fails(Code.SPEED_NOT_REPAID, of_jobs(between_steps, "fast")),
    "jobs of very different speeds": leaves_open(Code.SPEED_UNDECIDED, uneven),
    "a busy machine": leaves_open(Code.SPEED_UNDECIDED, busy),
    "one job of each arm": leaves_open(Code.SPEED_UNDECIDED, seeds=(1,), speedup=1.2),
    "too few steps": leaves_open(Code.SPEED_UNMEASURED, of_jobs(few_steps)),
    "pairs that the jobs contradict": leaves_open(Code.SPEED_DISAGREES, pairs(1.5), speedup=1.0),
    "milliseconds": fails(
        Code.SPEED_BEYOND_BELIEF, seconds_of(lambda one, other: (1000.0 * one, other))
    ),
}


def statements_with(verdict: Verdict, code: Code) -> list[Reason | Note]:
    """What the verdict says with this code, of either arm."""
    found = [*verdict.baseline.reasons]
    found += [it for each in verdict.candidates for it in (*each.reasons, *each.notes)]
    return [each for each in found if each.code is code]


def check(verdict: Verdict, code: Code, arm: str, outcome: Outcome) -> None:
    (candidate,) = verdict.candidates
    reasons = (verdict.baseline if arm == "baseline" else candidate).reasons
    assert code in {each.code for each in reasons if each.outcome is not Outcome.PASS}
    assert candidate.outcome is outcome
    at_fault = arm == "baseline" or code is Code.BASELINE_UNSOUND
    assert verdict.baseline.sound is not at_fault
    assert verdict.decision.arm == ("none" if at_fault else "baseline")
    assert (Code.BASELINE_UNSOUND in {it.code for it in candidate.reasons}) is at_fault


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_and_spoils_its_arm(name: str) -> None:
    it = MISTAKES[name]
    check(it.verdict, it.code, it.arm, it.outcome)


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("name", DAMAGE)
def test_damage_to_one_replicate_is_named_and_spoils_its_arm(name: str, arm: str) -> None:
    check(damaged(name, arm), DAMAGE[name][0], arm, Outcome.FAIL)


def test_the_sound_execution_that_all_build_on_passes(execution) -> None:
    verdict = execution.judge()
    assert (verdict.candidates[0].outcome, verdict.decision.arm) == (Outcome.PASS, "fast")
    assert verdict.baseline.sound


# What several rows are about.


def test_evidence_of_another_job_than_this_execution_s_fails(execution) -> None:
    jobs = {key: record.evidence.job for key, record in execution.records.items()}
    assert execution.judge(jobs=jobs).candidates[0].outcome is Outcome.PASS
    for unknown in ({**jobs, ("fast", 1): "train-fast-1-of-today"}, {("fast", 1): ""}):
        verdict = execution.judge(jobs={**jobs, **unknown})
        check(verdict, Code.EVIDENCE_OF_ANOTHER, "fast", Outcome.FAIL)


def test_a_compiler_that_is_right_to_the_last_bits_made_no_other_model(execution) -> None:
    """A small model may end at the same outputs, although its losses were rounded otherwise."""
    copied("fast", {seed: seed for seed in SEEDS}, "baseline", same_losses=True)(execution)
    for seed in SEEDS:
        execution.alter("fast", seed, steps__loss=lambda loss: loss * (1 + 2.5e-7))
    assert not statements_with(execution.judge(), Code.MODEL_OUTPUTS_OF_ANOTHER)


def test_a_candidate_that_is_refused_is_measured_all_the_same(execution) -> None:
    """What spoils nothing hides nothing."""
    execution.alter("fast", 1, environment__torch="2.12.1")
    execution.alter("fast", 2, recipe__learning_rate=2e-3)
    (candidate,) = execution.judge().candidates
    assert [metric.outcome for metric in candidate.metrics] == [Outcome.PASS, Outcome.PASS]
    assert candidate.speed.outcome is Outcome.PASS
    assert candidate.reasons[0].outcome is Outcome.FAIL


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_what_an_ending_says_of_the_arm(execution, ending: Ending) -> None:
    """What the machine did to all of its jobs is still not the arm's doing; a need that is met by
    none of them is, unless the baseline met it too."""
    lost, failed = Code.EVIDENCE_LOST, Code.ARM_FAILED

    def decided() -> Code:
        verdict = execution.judge()
        assert verdict.decision.arm == "baseline"
        return verdict.candidates[0].reasons[0].code

    execution.fail("fast", 2, "what happened", ending.name)
    assert decided() is (failed if ending.about == ARM else lost)
    for seed in SEEDS:
        execution.fail("fast", seed, "what happened", ending.name)
    assert decided() is (lost if ending.about == MACHINE else failed)
    if ending.about == NEED:
        execution.alter("baseline", 3, attempts=(ending.name,))
        assert decided() is lost


@pytest.mark.parametrize("text", ["boom\n\x1b[31m", "boom\ud800"])
def test_reasons_from_damaged_text_stay_one_printable_sentence(execution, text) -> None:
    execution.fail("fast", 1, text + "x" * 5000)
    (found,) = statements_with(execution.judge(), Code.ARM_FAILED)
    assert found.sentence.isprintable()
    assert len(found.sentence) < 1_600


def test_very_many_differences_are_named_in_a_few_reasons(execution) -> None:
    execution.alter_all("fast", **{f"environment__key {number}": 1 for number in range(400)})
    (candidate,) = execution.judge().candidates
    assert len(candidate.reasons) < 40
    assert len(candidate.confounds) <= 200


@pytest.mark.filterwarnings("error")
def test_columns_in_half_precision_are_judged_as_the_numbers_that_they_are(execution) -> None:
    for seed in SEEDS:
        half = record_with(steps=column(loss=lambda it: it.astype(np.float16)))
        half(execution, "fast", seed)
        execution.records["fast", seed] = as_read(with_digests(execution.record("fast", seed)))
    assert execution.judge().candidates[0].outcome is Outcome.PASS
