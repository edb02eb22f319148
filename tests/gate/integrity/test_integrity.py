"""Every way in which evidence can be unusable has a code, and none of them passes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from compilegate.evidence import Origin, TruncatedEvidenceError, UndeclaredEvidenceError
from compilegate.evidence.rows import take_rows
from compilegate.gate.reasons import Code, Outcome
from compilegate.job.evidence import (
    CheckpointRecord,
    EvidenceError,
    EvidenceRecord,
    PaddedPositions,
    PaddingRecord,
    Resumption,
)

ABOUT_ARMS = {
    "baseline",
    "confidence",
    "confound",
    "effect",
    "groups",
    "margin",
    "memory",
    "padding",
    "parity",
    "quality",
    "seeds",
    "slice",
    "speed",
    # Of other gates, with tests of their own.
    "champion",
    "printed",
}
OF_EXPLOITS = {
    Code.COMPILER_CACHE_CONTRADICTS,
    Code.COMPILER_NO_PROOF,
    Code.DATA_INPUTS_TRAINED_ON,
    Code.DATA_TRAINED_ON,
    Code.DIGEST_PLACEHOLDER,
    Code.EXAMPLES_LOSSES_UNCHECKED,
    Code.EXAMPLES_ONE_CLASS,
    Code.EVIDENCE_NO_ENVIRONMENT,
    Code.METRIC_BELOW_FLOOR,
    Code.MODEL_OUTPUTS_OF_ANOTHER,
    Code.MODEL_SEEDS_ALIKE,
    Code.STEPS_LOSS_FLAT,
    Code.STEPS_OTHER_END,
    Code.STEPS_OTHER_START,
    Code.STEPS_TIMES_OF_ANOTHER,
    Code.STEPS_TOTAL_UNACCOUNTED,
    Code.COMPILER_IN_PIECES,
    Code.STEPS_SPEED_DIFFERS,
    Code.STEPS_TIME_UNACCOUNTED,
    Code.DATA_OTHER_TRAINED_ON,
    Code.MODEL_SEEDS_CLOSE,
    Code.STEPS_SEEDS_ALIKE,
    Code.EXAMPLES_INPUTS_DIFFER,
    Code.EXAMPLES_LOSSES_EQUAL,
    Code.METRIC_TOO_GOOD,
    Code.COMPILER_FEW_CALLS,
}
"""They have their tests in test_exploits.py, test_implausible.py and test_trained_on.py."""
INTEGRITY_CODES = {
    code for code in Code if code.partition(".")[0] not in ABOUT_ARMS and code not in OF_EXPLOITS
}
"""Codes of what is wrong with a single replicate."""


def missing(execution, replicate):
    del execution.records[replicate]


def lacking(execution, replicate):
    execution.change_evidence(*replicate, origin=Origin.PRINTED)


def truncated(execution, replicate):
    execution.records[replicate] = TruncatedEvidenceError("output.tar.gz is truncated")


def unreadable(execution, replicate):
    execution.records[replicate] = EvidenceError("evidence.json is not readable JSON")


def swapped(execution, replicate):
    execution.change_evidence(*replicate, seed=77)


def duplicated_job(execution, replicate):
    other = next(key for key in execution.records if key[0] == replicate[0] and key != replicate)
    execution.change_evidence(*replicate, job=execution.record(*other).evidence.job)


def duplicated_model(execution, replicate):
    other = next(key for key in execution.records if key[0] == replicate[0] and key != replicate)
    change_digest(execution, replicate, model=execution.record(*other).evidence.digests["model"])


def implausible(execution, replicate):
    execution.change_evidence(*replicate, peak_memory_bytes=10**400)


def altered(execution, replicate):
    """What reading finds when anything in evidence.json was changed after it was written."""
    execution.records[replicate] = dataclasses.replace(
        execution.record(*replicate), as_written=False
    )


def copied_under_another_name(execution, replicate):
    """Another job's steps and outputs, with an identity and a model of their own."""
    other = next(key for key in execution.records if key[0] == replicate[0] and key != replicate)
    copied, own = execution.record(*other), execution.record(*replicate).evidence
    evidence = dataclasses.replace(
        copied.evidence,
        job=own.job,
        seed=own.seed,
        digests={**copied.evidence.digests, "model": own.digests["model"]},
    )
    execution.records[replicate] = dataclasses.replace(copied, evidence=evidence)


def undeclared(execution, replicate):
    """Another seed of the arm, that was trained and is not declared."""
    execution.records[replicate[0], 99] = UndeclaredEvidenceError("fast--99 is there")


def lost_for_ever(execution, replicate):
    resumed = (Resumption(3, 5, 1e300),)
    checkpoints = CheckpointRecord(written=1, seconds=0.1, ignored=None, resumed=resumed)
    execution.change_evidence(*replicate, checkpoints=checkpoints)


def shorter_than_its_steps(execution, replicate):
    speed = dataclasses.replace(execution.record(*replicate).evidence.speed, train_seconds=0.5)
    execution.change_evidence(*replicate, speed=speed)


def failed(execution, replicate):
    evidence = dataclasses.replace(
        execution.record(*replicate).evidence, failure="the loss is nan in step 4", speed=None
    )
    execution.records[replicate] = EvidenceRecord(evidence, None, None)


def change_digest(execution, replicate, **digests):
    known = execution.record(*replicate).evidence.digests
    changed = {name: value for name, value in {**known, **digests}.items() if value is not None}
    execution.change_evidence(*replicate, digests=changed)


def change_compiler(execution, replicate, **fields):
    compiler = dataclasses.replace(execution.record(*replicate).evidence.compiler, **fields)
    execution.change_evidence(*replicate, compiler=compiler)


def change_recipe(execution, replicate, **values):
    recipe = {**execution.record(*replicate).evidence.recipe, **values}
    execution.change_evidence(*replicate, recipe=recipe)


def change_metrics(execution, replicate, **values):
    metrics = {**execution.record(*replicate).evidence.metrics, **values}
    execution.change_evidence(
        *replicate, metrics={name: value for name, value in metrics.items() if value is not None}
    )


def column(execution, replicate, name):
    return getattr(execution.record(*replicate).examples, name).copy()


def repeated_id(execution, replicate):
    ids = column(execution, replicate, "ids")
    ids[5] = ids[4]
    execution.change_examples(*replicate, ids=ids)


def unreadable_id(execution, replicate):
    """Half a surrogate pair, which no file can hold; its digest cannot be taken either."""
    record = execution.record(*replicate)
    ids = record.examples.ids.copy()
    ids[5] = "\ud800"
    examples = dataclasses.replace(record.examples, ids=ids)
    execution.records[replicate] = dataclasses.replace(record, examples=examples)


def other_id(execution, replicate):
    ids = column(execution, replicate, "ids")
    ids[5] = "another"
    execution.change_examples(*replicate, ids=ids)


def label_out_of_range(execution, replicate):
    labels = column(execution, replicate, "labels")
    labels[5] = 900
    record = execution.record(*replicate)
    execution.records[replicate] = dataclasses.replace(
        record, examples=dataclasses.replace(record.examples, labels=labels)
    )


def other_label(execution, replicate):
    """A label changed with everything that follows from it, so that only a comparison shows it."""
    labels, scores = (column(execution, replicate, name) for name in ("labels", "scores"))
    labels[5] = (labels[5] + 1) % scores.shape[1]
    losses = -np.log(scores[np.arange(len(labels)), labels])
    execution.change_examples(*replicate, labels=labels, losses=losses)


def padded_otherwise(execution, replicate):
    """All arms declare buckets, and all jobs but this one had them."""
    experiment = execution.experiment
    arms = {
        name: declared.model_copy(update={"padding": "buckets"})
        for name, declared in experiment.arms.items()
    }
    execution.experiment = experiment.model_copy(update={"arms": arms})
    for each in execution.records:
        change_recipe(execution, each, padding="max" if each == replicate else "buckets")


def padded_otherwise_than_told(execution, replicate):
    positions = PaddedPositions(max=640, buckets=320, longest=300)
    record = PaddingRecord("buckets", (8, 16), (8, 16), 250, positions, (8, 16), (20, 20))
    change_recipe(execution, replicate, padding="longest")
    execution.change_evidence(*replicate, padding=record)


def one_more_class(execution, replicate):
    scores = column(execution, replicate, "scores")
    execution.change_examples(*replicate, scores=np.pad(scores, ((0, 0), (0, 1))))


def bad_score(execution, replicate, value):
    scores = column(execution, replicate, "scores")
    scores[5, 0] = value
    execution.change_examples(*replicate, scores=scores)


def rounded(execution, replicate, *, score=0.0, loss=0.0, metric=0.0):
    """One score, all losses and a reported metric off by so much."""
    scores, losses = (column(execution, replicate, name) for name in ("scores", "losses"))
    scores[5, 0] += score
    execution.change_examples(*replicate, scores=scores, losses=losses + loss)
    accuracy = execution.record(*replicate).evidence.metrics["accuracy"]
    change_metrics(execution, replicate, accuracy=accuracy + metric)


def shuffled_losses(execution, replicate):
    execution.change_examples(*replicate, losses=column(execution, replicate, "losses")[::-1])


def targets_of_its_own(execution, replicate):
    execution.change_examples(*replicate, targets=np.ones(2000), predictions=np.ones(2000))


def slices_of_its_own(execution, replicate):
    execution.change_examples(*replicate, slices={"language": np.array(["de", "en"] * 1000)})


def first_rows(execution, replicate, count):
    record = execution.record(*replicate)
    examples = take_rows(record.examples, slice(count))
    execution.records[replicate] = dataclasses.replace(record, examples=examples)


def bad_step(execution, replicate, name, value):
    values = getattr(execution.record(*replicate).steps, name).copy()
    values[7] = value
    speed = execution.record(*replicate).evidence.speed
    execution.change_steps(*replicate, **{name: values})
    if not np.isfinite(value):  # a record that holds such a number cannot be read at all
        execution.change_evidence(*replicate, speed=speed)


DAMAGE = [
    (Code.EVIDENCE_MISSING, missing),
    (Code.EVIDENCE_TRUNCATED, truncated),
    (Code.EVIDENCE_UNREADABLE, unreadable),
    (Code.EVIDENCE_LACKING, lacking),
    (Code.EVIDENCE_SWAPPED, swapped),
    (Code.EVIDENCE_DUPLICATED, duplicated_job),
    (Code.EVIDENCE_DUPLICATED, copied_under_another_name),
    (Code.EVIDENCE_UNDECLARED, undeclared),
    (Code.MODEL_DUPLICATED, duplicated_model),
    (Code.EVIDENCE_IMPLAUSIBLE, implausible),
    (Code.EVIDENCE_IMPLAUSIBLE, shorter_than_its_steps),
    (Code.EVIDENCE_IMPLAUSIBLE, lost_for_ever),
    (Code.ARM_FAILED, failed),
    (Code.DIGEST_MISSING, lambda e, r: change_digest(e, r, model=None)),
    (Code.DIGEST_MISSING, lambda e, r: change_digest(e, r, steps=None)),
    (Code.DIGEST_DIFFERS, altered),
    (Code.DIGEST_DIFFERS, lambda e, r: change_digest(e, r, examples="0" * 64)),
    (Code.DIGEST_DIFFERS, lambda e, r: change_digest(e, r, outputs="0" * 64)),
    (Code.DIGEST_DIFFERS, lambda e, r: change_digest(e, r, steps="0" * 64)),
    (Code.DATA_DIFFERS, lambda e, r: change_digest(e, r, data="0" * 64)),
    (Code.STEPS_COUNT, lambda e, r: change_recipe(e, r, steps=61)),
    (Code.STEPS_COUNT, lambda e, r: change_recipe(e, r, steps=None)),
    (Code.STEPS_LOSS_NOT_FINITE, lambda e, r: bad_step(e, r, "loss", np.nan)),
    (Code.STEPS_LOSS_NOT_FINITE, lambda e, r: bad_step(e, r, "loss", -np.inf)),
    (Code.STEPS_SECONDS_INVALID, lambda e, r: bad_step(e, r, "seconds", np.nan)),
    (Code.STEPS_SECONDS_INVALID, lambda e, r: bad_step(e, r, "seconds", -0.1)),
    (Code.STEPS_SECONDS_INVALID, lambda e, r: bad_step(e, r, "seconds", 1e300)),
    (Code.STEPS_SECONDS_INVALID, lambda e, r: bad_step(e, r, "seconds", 1e-300)),
    (Code.EXAMPLES_TOO_FEW, lambda e, r: first_rows(e, r, 1)),
    (Code.EXAMPLES_TOO_FEW, lambda e, r: first_rows(e, r, 0)),
    (Code.EXAMPLES_NOT_FINITE, lambda e, r: bad_score(e, r, np.nan)),
    (Code.EXAMPLES_NOT_PROBABILITIES, lambda e, r: bad_score(e, r, 0.7)),
    (Code.EXAMPLES_NOT_PROBABILITIES, lambda e, r: bad_score(e, r, 1e308)),
    (Code.EXAMPLES_NOT_PROBABILITIES, lambda e, r: bad_score(e, r, -0.2)),
    (Code.EXAMPLES_NOT_PROBABILITIES, lambda e, r: rounded(e, r, score=2e-3)),
    (Code.EXAMPLES_LOSSES_DISAGREE, shuffled_losses),
    (Code.EXAMPLES_LOSSES_DISAGREE, lambda e, r: rounded(e, r, loss=0.03)),
    (Code.EXAMPLES_LABEL_RANGE, label_out_of_range),
    (Code.EXAMPLES_IDS_UNREADABLE, unreadable_id),
    (Code.EXAMPLES_IDS_REPEAT, repeated_id),
    (Code.EXAMPLES_IDS_DIFFER, other_id),
    (Code.EXAMPLES_LABELS_DIFFER, other_label),
    (Code.EXAMPLES_CLASSES_DIFFER, one_more_class),
    (Code.EXAMPLES_TARGETS_DIFFER, targets_of_its_own),
    (Code.EXAMPLES_SLICES_DIFFER, slices_of_its_own),
    (Code.METRIC_MISSING, lambda e, r: change_metrics(e, r, accuracy=None)),
    (Code.METRIC_NOT_FINITE, lambda e, r: change_metrics(e, r, something_else=np.inf)),
    (Code.METRIC_NOT_FINITE, lambda e, r: change_metrics(e, r, something_else=1e300)),
    (Code.METRIC_DISAGREES, lambda e, r: rounded(e, r, metric=2e-4)),
    (Code.METRIC_DISAGREES, lambda e, r: change_metrics(e, r, accuracy=np.nan)),
    (Code.COMPILER_DIFFERS, lambda e, r: change_compiler(e, r, name="xla")),
    (Code.COMPILER_RECOMPILED, lambda e, r: change_compiler(e, r, recompilations=1)),
    (Code.RECIPE_BATCH_SIZE, lambda e, r: change_recipe(e, r, batch_size=64)),
    (Code.RECIPE_WORLD_SIZE, lambda e, r: change_recipe(e, r, world_size=2)),
    (Code.RECIPE_LEARNING_RATE, lambda e, r: change_recipe(e, r, learning_rate=2e-3)),
    (Code.RECIPE_LEARNING_RATE, lambda e, r: change_recipe(e, r, learning_rate=np.nan)),
    (Code.RECIPE_PADDING, padded_otherwise),
    (Code.EVIDENCE_IMPLAUSIBLE, padded_otherwise_than_told),
    (Code.RECIPE_PRECISION, lambda e, r: change_recipe(e, r, precision="bf16")),
]
CODES_OF_ONE_ROLE = {
    Code.COMPILER_DID_NOT_RUN: ("fast", False),
    Code.COMPILER_RAN_IN_EAGER: ("baseline", True),
}
"""Codes that an eager arm, or a compiled one, cannot have."""


@pytest.mark.slow
@pytest.mark.parametrize(("code", "damage"), DAMAGE)
def test_damage_to_a_candidate_fails_it_and_the_baseline_is_released(execution, code, damage):
    damage(execution, ("fast", 2))
    verdict = execution.judge()
    candidate = verdict.candidates[0]
    assert candidate.outcome is Outcome.FAIL
    assert code in {reason.code for reason in candidate.reasons}
    assert verdict.baseline.sound
    assert verdict.decision.arm == "baseline"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "damage"),
    # The data digest and the examples are compared with the first replicate of the baseline, so
    # damaging a later one shows in that one.
    DAMAGE,
)
def test_damage_to_the_baseline_leaves_nothing_to_release(execution, code, damage):
    damage(execution, ("baseline", 2))
    verdict = execution.judge()
    assert not verdict.baseline.sound
    assert code in {reason.code for reason in verdict.baseline.reasons}
    assert verdict.candidates[0].outcome is Outcome.FAIL
    assert Code.BASELINE_UNSOUND in {reason.code for reason in verdict.candidates[0].reasons}
    assert verdict.decision.arm == "none"


def test_what_half_precision_and_four_printed_decimals_leave_out_is_no_damage(execution):
    rounded(execution, ("fast", 2), score=5e-4, loss=0.01, metric=5e-5)
    assert execution.judge().candidates[0].outcome is Outcome.PASS


@pytest.mark.parametrize("code", CODES_OF_ONE_ROLE)
def test_a_compiler_that_ran_where_it_should_not_or_did_not_where_it_should(execution, code):
    arm, ran = CODES_OF_ONE_ROLE[code]
    change_compiler(execution, (arm, 3), ran=ran)
    verdict = execution.judge()
    found = [*verdict.baseline.reasons, *verdict.candidates[0].reasons]
    assert code in {reason.code for reason in found}
    assert verdict.decision.arm == ("none" if arm == "baseline" else "baseline")


@pytest.mark.slow
def test_evidence_of_another_job_than_this_execution_s_fails(execution):
    jobs = execution.jobs()
    assert execution.judge(jobs=jobs).candidates[0].outcome is Outcome.PASS
    verdict = execution.judge(jobs={**jobs, ("fast", 1): "train-fast-1-of-today"})
    assert {reason.code for reason in verdict.candidates[0].reasons} >= {Code.EVIDENCE_WRONG_JOB}
    assert verdict.decision.arm == "baseline"


def test_every_code_about_evidence_is_triggered_by_a_test_of_this_file():
    of_one_test = {Code.EVIDENCE_WRONG_JOB, Code.METRIC_UNDEFINED, Code.METRIC_ABOVE_ONE}
    of_one_test |= {Code.EVIDENCE_LOST}  # test_endings.py
    assert {code for code, _ in DAMAGE} | set(CODES_OF_ONE_ROLE) | of_one_test == INTEGRITY_CODES


def test_a_guarded_metric_that_the_examples_do_not_determine_fails(new_execution):
    """There are no targets, so there is no squared error; watching it instead only says so."""
    guards = {"accuracy": {"direction": "higher", "margin": 0.01}}
    for guard, outcome in (
        ({"direction": "lower", "margin": 0.1}, Outcome.FAIL),
        ({"direction": "lower", "watched": True}, Outcome.PASS),
    ):
        execution = new_execution(metrics={**guards, "mse": guard})
        verdict = execution.judge()
        assert verdict.candidates[0].outcome is outcome
        notes = {note.code for note in verdict.candidates[0].notes}
        codes = {reason.code for reason in verdict.baseline.reasons} | notes
        assert Code.METRIC_UNDEFINED in codes


def test_a_baseline_compared_with_itself_fails_the_copy_not_the_baseline(execution):
    for seed in execution.experiment.seeds:
        model = execution.record("baseline", seed).evidence.digests["model"]
        change_digest(execution, ("fast", seed), model=model)
    verdict = execution.judge()
    assert verdict.candidates[0].outcome is Outcome.FAIL
    assert {reason.code for reason in verdict.candidates[0].reasons} >= {Code.MODEL_DUPLICATED}
    assert verdict.decision.arm == "baseline"


def test_two_candidates_that_share_a_model_both_fail(new_execution):
    execution = new_execution(candidates=("fast", "faster"))
    model = execution.record("fast", 1).evidence.digests["model"]
    change_digest(execution, ("faster", 1), model=model)
    verdict = execution.judge()
    assert [candidate.outcome for candidate in verdict.candidates] == [Outcome.FAIL] * 2


def test_one_bad_candidate_does_not_touch_another(new_execution):
    execution = new_execution(candidates=("fast", "broken"))
    missing(execution, ("broken", 1))
    verdict = execution.judge()
    assert [candidate.outcome for candidate in verdict.candidates] == [Outcome.PASS, Outcome.FAIL]
    assert verdict.decision.arm == "fast"


def test_the_order_of_the_rows_does_not_matter(execution):
    order = np.random.default_rng(3).permutation(2000)
    expected = execution.judge()
    examples = execution.record("fast", 2).examples
    execution.change_examples(
        "fast",
        2,
        **vars(take_rows(examples, order)),
    )
    judged = execution.judge().candidates[0].metrics
    assert judged
    for found, wanted in zip(judged, expected.candidates[0].metrics, strict=True):
        assert found.delta.lower == pytest.approx(wanted.delta.lower)


@pytest.mark.parametrize(
    ("text", "code"),
    [("boom\n\x1b[31m", Code.ARM_FAILED), ("boom\ud800", Code.EVIDENCE_UNREADABLE)],
)
def test_reasons_from_damaged_text_stay_one_printable_sentence(execution, text, code):
    evidence = dataclasses.replace(execution.record("fast", 1).evidence, failure=text + "x" * 5000)
    execution.records["fast", 1] = EvidenceRecord(evidence, None, None)
    sentence = next(
        reason.sentence for reason in execution.judge().candidates[0].reasons if reason.code is code
    )
    assert sentence.isprintable()
    assert len(sentence) < 500


def test_a_compiler_that_computes_what_eager_does_to_the_last_bit_is_no_copy(execution):
    for seed in execution.experiment.seeds:
        baseline = execution.record("baseline", seed)
        metrics = dict(baseline.evidence.metrics)
        execution.put_examples("fast", seed, baseline.examples, metrics)
        change_digest(execution, ("fast", seed), model=baseline.evidence.digests["model"])
    codes = {reason.code for reason in execution.judge().candidates[0].reasons}
    assert Code.MODEL_DUPLICATED not in codes
    assert Code.QUALITY_NOT_WORSE in codes
