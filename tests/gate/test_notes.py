"""What is odd and decides nothing: the candidate passes, and the verdict says what was seen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compilegate.gate.evidence import UndeclaredEvidenceError
from compilegate.gate.findings import Code, Outcome
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import PairedSpeedRecord, Slowdown
from compilegate.job.evidence.writing import hashed
from tests.gate.conftest import SyntheticExecution, build_execution, classified, unclassified
from tests.gate.test_mistakes import (
    ACCURACY,
    ARMS,
    BOTH,
    SEEDS,
    SLICE,
    TEXTS,
    Change,
    Row,
    at,
    categories,
    every,
    of_jobs,
    one,
    pairs,
    soft,
    trained_on,
    without_parity,
)


def notes(code: Code | None, change: Change | None = None, **options: Any) -> Row:
    return Row(code, change, outcome=Outcome.PASS, options=options)


def undeclared(e: SyntheticExecution) -> None:
    e.records["fast", 99] = UndeclaredEvidenceError("fast--99 was trained")


def two_of_five(e: SyntheticExecution) -> None:
    for arm in ARMS:
        first = e.record(arm, 1)
        model = first.evidence.digests["model"]
        e.alter(arm, 5, steps__loss=first.steps.loss, digests__model=model)


def split_by_rows(e: SyntheticExecution, arm: str, seed: int) -> None:
    """150 of 200 patients were trained on."""
    patients = np.array([f"patient-{row // 10}" for row in range(2000)])
    e.alter(arm, seed, examples__slices={"patient": patients})
    e.train_on(arm, seed, None, None, {"patient": patients[:1500]})


def close_to_each_other(e: SyntheticExecution) -> None:
    soft(e)
    first = e.examples("fast", 1).scores
    for seed in SEEDS:
        scores = first * np.random.default_rng(seed).lognormal(0.0, 0.02, first.shape)
        e.put_scores("fast", seed, scores / scores.sum(axis=1, keepdims=True))


def small_table(e: SyntheticExecution) -> None:
    random = np.random.default_rng(3)
    texts = [f"row {each}" for each in random.integers(0, 1500, 2000)]
    trained_on(inputs=[f"row {each}" for each in random.integers(0, 1500, 10_000)])(e)
    e.alter_all(BOTH, examples__inputs=hashed(texts))


def digests_as_ids(e: SyntheticExecution, arm: str, seed: int) -> None:
    digests = [hashlib.sha256(text.encode()).hexdigest()[:16] for text in TEXTS]
    e.alter(arm, seed, examples__ids=np.array(digests))
    e.train_on(arm, seed, [*digests[:600], "0123456789abcdef-2"])


def row_numbers(e: SyntheticExecution, arm: str, seed: int) -> None:
    e.alter(arm, seed, examples__ids=np.arange(2000).astype(str))
    e.train_on(arm, seed, list(range(5000)))


def part_of_an_epoch(e: SyntheticExecution, arm: str, seed: int) -> None:
    ids = [f"train-{index}" for index in range(5000)]
    e.train_on(arm, seed, ids if arm == "baseline" else ids[::2])


def after_a_cast(e: SyntheticExecution, arm: str, seed: int) -> None:
    e.alter(arm, seed, examples__inputs=hashed([arm + text for text in TEXTS]))


def one_class(e: SyntheticExecution, arm: str, seed: int) -> None:
    examples = e.examples(arm, seed)
    shift = (np.arange(4) + examples.labels[:, None]) % 4
    scores = np.take_along_axis(examples.scores, shift, axis=1)  # the label comes first
    e.put(arm, seed, examples=classified(np.zeros_like(examples.labels), scores))


def single_precision(e: SyntheticExecution, arm: str, seed: int) -> None:
    targets = np.random.default_rng(1).normal(10.0, 3.0, 2000)
    own = np.random.default_rng([seed, len(arm)]).normal(0.0, 0.1, 2000)
    used = targets if arm == "baseline" else targets.astype(np.float32).astype(float)
    numbers = {"targets": used, "predictions": used + own}
    e.put(arm, seed, examples=unclassified(np.abs(own), **numbers))


def flat(e: SyntheticExecution, arm: str, seed: int) -> None:
    noise = np.random.default_rng(seed).standard_normal(60)
    e.alter(arm, seed, steps__loss=1.4 + 0.01 * noise)


def knowing_the_answers(share: float) -> Change:
    def change(e: SyntheticExecution) -> None:
        soft(e, 0.1)
        for seed in SEEDS:
            examples = e.examples("fast", seed)
            known = np.eye(4)[examples.labels]
            e.put_scores("fast", seed, (1.0 - share) * examples.scores + share * known)

    return change


def other_machines(e: SyntheticExecution, arm: str, seed: int) -> None:
    values = {"environment__cpu": f"that of {arm}", "environment__platform": f"Linux {arm}"}
    e.alter(arm, seed, environment__instance_type="ml.g5.xlarge", **values)


def micro_batches(e: SyntheticExecution) -> None:
    """Eight at a time, four times, beside 32 at once."""
    e.declare("fast", batch_size=8)
    e.alter_all("fast", recipe__batch_size=8)
    e.alter_all(BOTH, recipe__global_batch_size=32)


def other_random_numbers(e: SyntheticExecution, arm: str, seed: int) -> None:
    """Both steps are as far from float64, since they drew the same."""
    drawn = np.random.default_rng(seed).uniform(0.1, 0.9, (2, 3))
    compiled = drawn + e.record(arm, seed).parity.compiled
    e.put(arm, seed, parity={"eager": drawn, "compiled": compiled})


def few_rows_carry(e: SyntheticExecution, arm: str, seed: int) -> None:
    own = np.random.default_rng([seed, len(arm)]).normal(1.0, 0.005, 2000)
    losses = at(slice(2), 60.0)(np.full(2000, 0.1)) * own
    e.put(arm, seed, examples=unclassified(losses))


def not_alternated(e: SyntheticExecution, arm: str, seed: int) -> None:
    obstacle = "XLA has the device for itself"
    e.alter(arm, seed, paired_speed=PairedSpeedRecord(0.0, "eager", 32, 32, 0, obstacle))


def in_another_unit(e: SyntheticExecution, arm: str, seed: int) -> None:
    e.pair(arm, seed, 1.6)
    names, blocks = ("baseline_seconds", "candidate_seconds"), e.record(arm, seed).paired
    e.put(arm, seed, paired={name: 1000.0 * getattr(blocks, name) for name in names})


def exactly(e: SyntheticExecution) -> None:
    seconds = e.seconds("baseline", 1)
    e.alter_all("baseline", steps__seconds=seconds)
    e.alter_all("fast", steps__seconds=seconds / 1.2, compiler__compile_seconds=0.0)


def in_bf16(e: SyntheticExecution) -> None:
    e.alter_all(BOTH, recipe__precision="bf16", recipe__autocast="bf16")
    e.alter_all("fast", parity__precision="bf16")


WATCHED_LOSS = {"log_loss": {"direction": "lower", "watched": True}}
PATIENTS = [f"p{index // 10}" for index in range(2000)]
ODDITIES: dict[str, Row] = {
    # Models and data.
    "an undeclared seed": notes(Code.EVIDENCE_UNDECLARED, undeclared),
    "one of five seeds unused": notes(Code.MODEL_SEED_UNUSED, two_of_five, seeds=(1, 2, 3, 4, 5)),
    "seeds that end close": notes(Code.MODEL_SEEDS_CLOSE, close_to_each_other),
    "inputs that repeat": notes(Code.DATA_INPUTS_TRAINED_ON, trained_on(inputs=TEXTS[:900])),
    "rows of a small table": notes(Code.DATA_INPUTS_TRAINED_ON, small_table),
    "ids that are digests": notes(Code.DATA_INPUTS_TRAINED_ON, of_jobs(digests_as_ids)),
    "row numbers": notes(None, of_jobs(row_numbers)),
    "patients in both parts": notes(
        Code.DATA_GROUPS_TRAINED_ON, of_jobs(split_by_rows), groups="patient", min_speedup=1.0
    ),
    "part of an epoch": notes(Code.DATA_OTHER_TRAINED_ON, of_jobs(part_of_an_epoch)),
    "hashed after a cast": notes(Code.EXAMPLES_INPUTS_DIFFER, of_jobs(after_a_cast)),
    "inputs of one arm alone": notes(None, every("fast", examples__inputs=np.arange(2000))),
    "label smoothing": notes(
        Code.EXAMPLES_LOSSES_DISAGREE, every(BOTH, examples__losses=lambda it: it + 0.1)
    ),
    "one class": notes(Code.EXAMPLES_ONE_CLASS, of_jobs(one_class), metrics=ACCURACY),
    "targets in single precision": notes(
        None, of_jobs(single_precision), metrics={"mae": {"direction": "lower", "margin": 0.05}}
    ),
    # Steps and metrics.
    "a loss that does not fall": notes(Code.STEPS_LOSS_FLAT, of_jobs(flat, "fast")),
    "a declared constant loss": notes(
        None, every(BOTH, steps__loss=np.full(60, 0.7)), loss_must_fall=False
    ),
    "another end": notes(
        Code.STEPS_OTHER_END, every("fast", steps__loss=np.linspace(1.4, 1.1, 60))
    ),
    "a last layer of zeros": notes(None, every(BOTH, steps__loss=at(0, np.log(4.0)))),
    "a metric computed otherwise": notes(Code.METRIC_DISAGREES, every(BOTH, metrics__accuracy=0.5)),
    "much better": notes(Code.METRIC_TOO_GOOD, knowing_the_answers(0.6)),
    "a little better": notes(None, knowing_the_answers(0.01)),
    "watched and undefined": notes(
        Code.METRIC_UNDEFINED, metrics={**ACCURACY, "mse": WATCHED_LOSS["log_loss"]}
    ),
    "recompilations": notes(Code.COMPILER_RECOMPILED, one("fast", 2, compiler__recompilations=7)),
    "options": notes(None, every("fast", compiler__options={"new": True, "batch_size": 7})),
    "both in bf16": notes(Code.RECIPE_PRECISION, in_bf16),
    # What differs beside the compiler.
    "another processor": notes(Code.CONFOUND_HARDWARE, of_jobs(other_machines)),
    "unknown hardware": notes(
        Code.CONFOUND_HARDWARE_UNKNOWN, every(BOTH, environment={"torch": "2.13.0", "threads": 1})
    ),
    "micro-batches": notes(None, micro_batches),
    # Parity, quality, memory, speed.
    "parity not measured": notes(Code.PARITY_CANNOT_TELL, without_parity),
    "other random numbers": notes(Code.PARITY_CANNOT_TELL, of_jobs(other_random_numbers, "fast")),
    "errors that are too large": notes(
        Code.PARITY_CANNOT_TELL,
        every("fast", errors__eager=lambda it: 1e6 * it, errors__compiled=lambda it: 1e6 * it),
    ),
    "a long tail": notes(
        Code.QUALITY_LONG_TAIL,
        of_jobs(few_rows_carry),
        metrics={"loss": {"direction": "lower", "margin": 0.05}},
    ),
    "a watched metric": notes(Code.QUALITY_WATCHED, metrics={**ACCURACY, **WATCHED_LOSS}),
    "three seeds": notes(Code.SEEDS_FEW),
    "five seeds": notes(None, seeds=(1, 2, 3, 4, 5)),
    "independent rows": notes(Code.GROUPS_COUNTED),
    "declared groups": notes(
        Code.GROUPS_COUNTED, categories(PATIENTS, "patient"), groups="patient"
    ),
    "a watched slice": notes(
        Code.SLICE_NOT_JUDGED, slices=[{**SLICE, "margin": None, "watched": True}]
    ),
    "blocks not alternated": notes(Code.SPEED_NOT_PAIRED, of_jobs(not_alternated, "fast")),
    "pairs in a single job": notes(Code.SPEED_NOT_PAIRED, lambda e: e.pair("fast", 1, 1.5)),
    "pairs in another unit": notes(Code.SPEED_NOT_PAIRED, of_jobs(in_another_unit, "fast")),
    "pairs": notes(None, pairs(1.5)),
    "a loader that is waited for": notes(
        Code.SPEED_HINDERED,
        every("fast", hindrances=(Slowdown("loader", 100.0, 0.62, rule="loader-workers"),)),
    ),
    "the same of the baseline": notes(
        None, every("baseline", hindrances=(Slowdown("loader", 100.0, 0.62),))
    ),
    "exactly as fast as is required": notes(None, exactly),
}


def larger_batch() -> SyntheticExecution:
    """A compiler-only candidate and one with its compiler and a batch of 48."""
    execution = build_execution(candidates=("compiler-only", "large"))
    execution.declare("large", batch_size=48)
    execution.alter_all("large", recipe__batch_size=48)
    return execution


def two_candidates() -> Verdict:
    execution = larger_batch()
    del execution.records["compiler-only", 1]
    return execution.judge()


def narrow_margin() -> Verdict:
    narrow = {"accuracy": {"direction": "higher", "margin": 0.0005}}
    return build_execution(metrics=narrow).judge()


OF_OTHER_VERDICTS: dict[Code, Callable[[], Verdict]] = {
    Code.EFFECT_SPLIT: lambda: larger_batch().judge(),
    Code.CONFIDENCE_HOLM: two_candidates,
    Code.MARGIN_BELOW_RESOLUTION: narrow_margin,
}
"""Notes that stand beside an outcome of their own, or in a verdict on several candidates."""


@pytest.mark.parametrize("name", ODDITIES)
def test_what_is_odd_is_noted_and_refuses_nothing(name: str) -> None:
    it, verdict = ODDITIES[name], ODDITIES[name].verdict
    (candidate,) = verdict.candidates
    against = [each.sentence for each in candidate.reasons if each.outcome is not Outcome.PASS]
    assert (candidate.outcome, against) == (Outcome.PASS, [])
    assert verdict.baseline.sound
    found = {each.code for each in candidate.notes}
    usual = {Code.GROUPS_COUNTED, Code.SEEDS_FEW}
    assert it.code in found if it.code is not None else found <= usual


@pytest.mark.parametrize("code", OF_OTHER_VERDICTS)
def test_other_notes_stand_in_verdicts_of_their_own(code: Code) -> None:
    notes = [note for each in OF_OTHER_VERDICTS[code]().candidates for note in each.notes]
    assert code in {note.code for note in notes}
