"""Quality: is the candidate's model as good as the baseline's, to within the margin?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compilegate.gate.findings import Code, Outcome
from compilegate.gate.metrics import MetricValues
from compilegate.gate.quality import (
    ArmQuality,
    Grouping,
    compare_arms,
    go_together,
    judge_quality,
    possible_groupings,
)
from compilegate.gate.settings import GateSettings
from compilegate.gate.verdict import MetricJudgement
from compilegate.job.evidence import EvidenceRecord, Examples
from tests.gate.conftest import build_execution, classified, scores_of

ACCURACY = {"direction": "higher", "margin": 0.01}
EVIDENCE = build_execution(seeds=(1,), examples=60).record("fast", 1).evidence
"""The evidence of a job, beside examples of any kind."""


def compared(
    guards: dict[str, Any], baseline: list[Examples], candidate: list[Examples], **more: Any
) -> ArmQuality:
    arms = [[EvidenceRecord(EVIDENCE, None, it) for it in each] for each in (baseline, candidate)]
    settings = GateSettings.model_validate({"metrics": guards, **more})
    return compare_arms(settings, arms[0], {"fast": arms[1]}, {}, MetricValues())["fast"]


def judged(
    metric: str, guard: dict[str, Any], before: list[Examples], after: list[Examples]
) -> tuple[MetricJudgement, list[Code]]:
    """One metric of two arms at 95%, and the codes of what is said of it."""
    (judgement,), statements = judge_quality(compared({metric: guard}, before, after), 0.95)
    return judgement, [each.code for each in statements]


def replicate(correct: np.ndarray, **columns: Any) -> Examples:
    """Two balanced classes; right where `correct` is true."""
    labels = np.arange(len(correct)) % 2
    return classified(labels, scores_of(np.where(correct, labels, 1 - labels), 2, 0.9), **columns)


def arm(seed: int, *, seeds: int = 3, examples: int = 2000, errors: float = 0.05) -> list[Examples]:
    """Replicates that share most of their mistakes."""
    easy = np.random.default_rng(99).random(examples) >= errors
    generator = np.random.default_rng(seed)
    return [replicate(easy ^ (generator.random(examples) < 0.004)) for _ in range(seeds)]


def worse(replicates: list[Examples], share: float) -> list[Examples]:
    """The same replicates, wrong on a further share of the examples."""
    changed = []
    for examples in replicates:
        correct = examples.scores.argmax(axis=1) == examples.labels
        correct[: int(share * len(correct))] = False
        changed.append(replicate(correct))
    return changed


def test_a_relative_margin_is_a_fraction_of_the_baseline_s_value() -> None:
    for share, passes in ((0.02, True), (0.0001, False)):
        guard = {**ACCURACY, "margin": share, "relative": True}
        judgement, _ = judged("accuracy", guard, arm(1), arm(2))
        assert judgement.margin == pytest.approx(share * judgement.baseline)
        assert judgement.relative_margin == share
        assert (judgement.outcome is Outcome.PASS) is passes


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(shares=st.tuples(st.floats(0.0, 0.06), st.floats(0.0, 0.11)).map(sorted))
def test_a_candidate_that_is_worse_still_never_does_better(shares) -> None:
    order = [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL]
    arms = [(arm(1), worse(arm(2), share)) for share in shares]
    found = [order.index(judged("accuracy", ACCURACY, *each)[0].outcome) for each in arms]
    assert found == sorted(found)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    shares=st.lists(st.floats(0.0, 0.2), min_size=1, max_size=4),
    repeated=st.integers(0, 3),
    metric=st.sampled_from(["accuracy", "auroc"]),
)
def test_an_identical_replicate_never_turns_a_fail_into_a_pass(shares, repeated, metric) -> None:
    """A replicate that adds no information adds no proof."""
    baseline, after = (arm(it, seeds=len(shares), examples=300) for it in (1, 2))
    candidate = [worse([each], share)[0] for each, share in zip(after, shares, strict=True)]
    if judged(metric, ACCURACY, baseline, candidate)[0].outcome is Outcome.FAIL:
        again = repeated % len(shares)
        more = [[*each, each[again]] for each in (baseline, candidate)]
        assert judged(metric, ACCURACY, *more)[0].outcome is not Outcome.PASS


# Groups.

GROUPS, EACH = 100, 10
ROWS = GROUPS * EACH
PATIENTS = np.repeat(np.arange(GROUPS), EACH)
COUNTED = np.array([f"patient-{it}_img{number % EACH}" for number, it in enumerate(PATIENTS)])


def images(number: int, *, together: bool, **columns: Any) -> list[Any]:
    """Two arms on images of patients: what one gets wrong and the other not is a matter of the
    patient, or of the image alone."""
    generator = np.random.default_rng(number)
    order = generator.permutation(ROWS)
    size, repeat = (GROUPS, EACH) if together else (ROWS, 1)
    lost, won = (np.repeat(generator.random(size) < 0.03, repeat) for _ in range(2))
    arms = []
    for wrong in (won, lost):
        own = generator.random((3, ROWS)) < 0.002
        columns = {"ids": COUNTED[order], **columns}
        arms.append([replicate((~wrong ^ each)[order], **columns) for each in own])
    return arms


def counted_as(quality: ArmQuality) -> list[Any]:
    return [it.numbers["effective"] for it in quality.statements if it.code is Code.GROUPS_COUNTED]


def test_groups_are_found_in_ids_with_counters_in_any_order() -> None:
    for together, draws in ((True, 10), (False, 30)):
        found = [
            counted_as(compared({"accuracy": ACCURACY}, *images(number, together=together)))
            for number in range(draws)
        ]
        right = [GROUPS] if together else []
        assert sum(each == right for each in found) >= draws - 1


def test_groups_are_found_in_a_column_of_categories_too() -> None:
    order = np.random.default_rng(5).permutation(ROWS)  # of the rows of `images(5)`
    column = {"patient": PATIENTS[order].astype(str)}
    ids = np.array([f"{it:x}z" for it in order])
    arms = images(5, together=True, ids=ids, slices=column)
    assert counted_as(compared({"accuracy": ACCURACY}, *arms)) == [GROUPS]


@given(sizes=st.lists(st.integers(1, 30), min_size=2, max_size=9))
@example(sizes=[5, 5, 5])
def test_groups_of_any_sizes_keep_the_mean(sizes) -> None:
    of_row = np.repeat(np.arange(len(sizes)), sizes)
    values = np.random.default_rng(2).random(len(of_row))
    found = Grouping(of_row, "x").columns(values)
    assert found.mean() == pytest.approx(values.mean())
    if len(set(sizes)) == 1:
        assert found == pytest.approx(values.reshape(len(sizes), -1).mean(axis=1))


def test_the_permutation_test_finds_chance_as_often_as_it_says() -> None:
    generator = np.random.default_rng(3)
    grouping = Grouping(PATIENTS, "x")
    found = sum(go_together(generator.random(ROWS), grouping, 99) for _ in range(300))
    assert found <= 12  # one in a hundred
    assert go_together(np.repeat(generator.random(GROUPS), EACH), grouping, 99)
    assert not go_together(np.zeros(ROWS), grouping, 99)


@pytest.mark.parametrize("form", ["{:x}z", "a-{}", "patient-{}_img0"])
def test_ids_without_counters_few_groups_and_single_rows_are_no_groups(form) -> None:
    ids = np.array([form.format(it) for it in range(ROWS)])
    by = [it.by for it in possible_groupings(replicate(np.arange(ROWS) % 9 > 0, ids=ids))]
    assert "the same id but for its counter" not in by


# Slices.

LANGUAGES = np.array(["de", "en", "en", "en"] * 499 + ["fr"] * 4)


PART = {"column": "language", "metric": "accuracy", "margin": 0.03}
WATCHED = {**PART, "value": "de", "margin": None, "watched": True}


def test_each_category_is_a_slice_that_is_judged_on_its_own_rows_or_watched() -> None:
    execution = build_execution(metrics={"accuracy": ACCURACY}, slices=[PART, WATCHED])
    execution.alter_all("baseline fast", examples__slices={"language": LANGUAGES})
    (candidate,) = execution.judge().candidates
    parts = [(it.part, it.examples, it.margin, it.outcome) for it in candidate.metrics if it.part]
    assert parts == [
        ("language = de", 499, 0.03, Outcome.PASS),
        ("language = en", 1497, 0.03, Outcome.PASS),
        ("language = de", 499, None, None),
    ]
    # Four rows in French are too few.
    assert candidate.outcome is Outcome.INCONCLUSIVE
    assert Code.SLICE_NOT_JUDGED in {it.code for it in candidate.reasons}
    assert Code.QUALITY_WATCHED in {it.code for it in candidate.notes}


def test_a_metric_that_a_slice_does_not_determine_is_undecided_there() -> None:
    part = {"column": "of_class", "value": "0", "metric": "auroc", "margin": 0.05}
    execution = build_execution(
        metrics={"auroc": {"direction": "higher", "margin": 0.02}}, slices=[part]
    )
    for replicate_ in list(execution.records):
        labels = execution.examples(*replicate_).labels
        execution.alter(*replicate_, examples__slices={"of_class": labels.astype(str)})
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.INCONCLUSIVE
    assert candidate.reasons[0].code is Code.SLICE_NOT_JUDGED


# What was only reported.

BLEU = {"bleu": {"direction": "higher", "margin": 0.5, "reported": True}}


def reported(before: list[float], after: list[float], guards: Any = BLEU) -> Any:
    seeds = range(1, len(before) + 1)
    execution = build_execution(metrics=guards, seeds=tuple(seeds))
    for arm_, values in (("baseline", before), ("fast", after)):
        for seed, value in zip(seeds, values, strict=True):
            execution.alter(arm_, seed, metrics__bleu=value)
    return execution


def without_examples(execution: Any) -> Any:
    for key in list(execution.records):
        bleu = {"bleu": execution.record(*key).evidence.metrics["bleu"]}
        execution.put(*key, examples=None)
        execution.alter(*key, metrics=bleu)
    return execution


USUAL = [27.1, 27.4, 26.9]
RELATIVE = {"margin": 0.1, "relative": True}


@pytest.mark.parametrize(
    ("before", "after", "changed", "outcome"),
    [
        (USUAL, [27.0, 27.5, 26.8], {}, Outcome.PASS),
        (USUAL, [25.0, 25.5, 24.8], {}, Outcome.FAIL),
        (USUAL, [27.6, 27.9, 27.4], {}, Outcome.PASS),
        (USUAL[:1], [20.0], {}, Outcome.INCONCLUSIVE),
        ([-2.00, -2.02, -1.99], [-2.05, -2.06, -2.05], RELATIVE, Outcome.PASS),
        # Of a baseline of zero, no relative margin is one.
        ([0.0] * 3, [-0.1, 0.1, 0.0], RELATIVE, Outcome.INCONCLUSIVE),
    ],
)
def test_scalars_are_judged_over_seeds_with_examples_or_without(
    before, after, changed, outcome
) -> None:
    execution = reported(before, after, {"bleu": {**BLEU["bleu"], **changed}})
    for each in (execution, without_examples(execution)):
        candidate = each.judge().candidates[0]
        assert (candidate.metrics[0].outcome, candidate.metrics[0].examples) == (outcome, 0)
        assert {"quality", "speed", "parity"} <= {it.code.subject for it in candidate.reasons}


def test_what_needs_examples_is_lacking_and_the_rest_is_judged() -> None:
    guards = {**BLEU, "accuracy": ACCURACY}
    execution = reported(USUAL, [25.0, 25.5, 24.8], guards)
    verdict = without_examples(execution).judge()
    codes = {it.code for it in verdict.candidates[0].reasons}
    assert {it.code for it in verdict.baseline.reasons} == {Code.EVIDENCE_LACKING}
    assert {Code.EVIDENCE_LACKING, Code.QUALITY_WORSE, Code.SPEED_FASTER} <= codes


def test_the_noise_floor_is_the_baseline_s_own_spread_over_seeds() -> None:
    execution = build_execution()
    found = {it.metric: it for it in execution.judge().baseline.noise_floor}
    values = [execution.record("baseline", seed).evidence.metrics["accuracy"] for seed in (1, 2, 3)]
    assert found["accuracy"].mean == pytest.approx(np.mean(values))
    assert found["accuracy"].seed_sd == pytest.approx(np.std(values, ddof=1))
    assert build_execution(seeds=(1,)).judge().baseline.noise_floor == ()
