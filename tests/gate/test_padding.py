"""Padding in the gate: declared where arms differ in it, with advice where it costs much."""

from __future__ import annotations

import dataclasses
import json

import pytest

from compilegate.evidence import PaddedPositions, PaddingRecord, read_evidence
from compilegate.gate.observations import Observations, observe
from compilegate.gate.reasons import Code, Outcome
from compilegate.job.evidence import EvidenceError, write_evidence

WASTEFUL = PaddingRecord(
    padding="max",
    lengths=(64,),
    bucket_lengths=(16, 64),
    tokens=300,
    positions=PaddedPositions(max=1000, buckets=420, longest=700),
    histogram_upto=(16, 64),
    histogram_documents=(30, 10),
)
BUCKETS = dataclasses.replace(WASTEFUL, padding="buckets", lengths=(16, 64))


def padded(execution, arm, padding, order):
    """Declare how an arm pads, and let its jobs have done so."""
    arms = dict(execution.experiment.arms)
    arms[arm] = arms[arm].model_copy(update={"padding": padding})
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})
    lengths = {"max": (64,), "buckets": (16, 64), "longest": ()}[padding]
    record = dataclasses.replace(WASTEFUL, padding=padding, lengths=lengths)
    for seed in execution.experiment.seeds:
        recipe = execution.record(arm, seed).evidence.recipe
        execution.change_evidence(
            arm, seed, recipe={**recipe, "padding": padding, "data_order": order}, padding=record
        )


def test_arms_that_declare_other_padding_are_compared_all_the_same(execution):
    padded(execution, "baseline", "max", "the seed's order")
    padded(execution, "fast", "buckets", "by length")
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.PASS
    found = {each.name: each for each in candidate.confounds}
    assert {name: (each.intended, each.why) for name, each in found.items()} == {
        "padding": (True, "declared by the workload"),
        "data_order": (True, "follows from padding = buckets"),
    }


@pytest.mark.parametrize("paddings", [("max", "longest"), ("buckets", "buckets")])
def test_where_the_order_does_not_follow_from_padding_another_one_fails(execution, paddings):
    padded(execution, "baseline", paddings[0], "one order")
    padded(execution, "fast", paddings[1], "another order")
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.FAIL
    found = {each.name: each.intended for each in candidate.confounds}
    assert found["data_order"] is False
    assert found.get("padding", True)


@pytest.mark.slow
def test_a_compiler_only_candidate_pads_as_the_baseline_does(new_execution):
    execution = new_execution(candidates=("fast", "short"))
    for arm, padding in (("baseline", "max"), ("fast", "max"), ("short", "longest")):
        padded(execution, arm, padding, "one order")
    effects = {each.arm: each.effects for each in execution.judge().candidates}
    assert effects["fast"] == ()
    assert {(each.compiler_only, each.changed) for each in effects["short"]} == {
        ("fast", ("padding longest",))
    }


def test_much_padding_leads_to_the_advice_to_try_buckets(execution):
    for arm in ("baseline", "fast"):
        padded(execution, arm, "max", "one order")
    candidate = execution.judge().candidates[0]
    (note,) = [each for each in candidate.notes if each.code is Code.PADDING_LARGE]
    assert note.sentence == (
        '70% of the positions that a step computes are padding: try padding = "buckets", which '
        "would compute 58% fewer, with 2 lengths (16, 64)."
    )
    assert note.numbers == {"share": pytest.approx(0.7), "saved": pytest.approx(0.58)}
    assert candidate.outcome is Outcome.PASS


@pytest.mark.slow
@pytest.mark.parametrize(
    "record",
    [
        BUCKETS,
        dataclasses.replace(WASTEFUL, tokens=705, positions=PaddedPositions(1000, 710, 708)),
        dataclasses.replace(WASTEFUL, positions=PaddedPositions(1000, 920, 700)),
    ],
    ids=["buckets already", "little padding", "buckets save little"],
)
def test_no_advice_where_there_is_nothing_to_gain(execution, record):
    for seed in execution.experiment.seeds:
        recipe = execution.record("fast", seed).evidence.recipe
        changed = {**recipe, "padding": record.padding}
        execution.change_evidence("fast", seed, recipe=changed, padding=record)
    notes = execution.judge().candidates[0].notes
    assert Code.PADDING_LARGE not in {each.code for each in notes}


def test_a_recompilation_is_told_beside_the_declared_lengths(execution):
    for arm in ("baseline", "fast"):
        padded(execution, arm, "buckets", "by length")
    compiler = execution.record("fast", 1).evidence.compiler
    again = dataclasses.replace(compiler, graphs=3, recompilations=1)
    execution.change_evidence("fast", 1, compiler=again)
    (reason,) = [
        each
        for each in execution.judge().candidates[0].reasons
        if each.code is Code.COMPILER_RECOMPILED
    ]
    assert "1 recompilations beside the 2 declared lengths, max_recompilations is 0" in (
        reason.sentence
    )


def test_observations_keep_what_the_first_job_of_an_arm_recorded(execution):
    padded(execution, "fast", "buckets", "by length")
    observed = observe(execution.experiment, execution.records)
    assert {each.arm: each.padding for each in observed.arms} == {
        "baseline": None,
        "fast": BUCKETS,
    }
    assert Observations.from_json(observed.to_json()) == observed


POSITIONS = {"max": 1000, "buckets": 420, "longest": 700}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"padding": "short"}, "padding: padding is 'short', expected one of 'max', 'buckets', "),
        ({"lengths": []}, "padding: lengths has 0 lengths with padding 'max'"),
        ({"padding": "longest"}, "padding: lengths has 1 lengths with padding 'longest'"),
        ({"lengths": [64, 32]}, "padding: lengths is (64, 32), expected ascending lengths"),
        ({"lengths": [0]}, "padding: lengths is (0,), expected ascending lengths from 1"),
        ({"lengths": list(range(1, 1002))}, "padding: lengths is (1, 2, 3"),
        ({"bucket_lengths": []}, "padding: bucket_lengths is (), expected ascending lengths"),
        ({"bucket_lengths": [10**7]}, "padding: bucket_lengths is (10000000,), expected ascending"),
        ({"histogram_upto": [64, 64]}, "padding: histogram_upto is (64, 64), expected ascending"),
        ({"histogram_documents": [1]}, "padding: histogram_documents has 1 counts, expected one"),
        ({"histogram_documents": [3, -1]}, "padding: histogram_documents is -1, expected a finite"),
        ({"tokens": 0}, "padding: tokens is 0, expected one or more, and no more than positions"),
        ({"tokens": 421}, "padding: tokens is 421, expected one or more"),
        ({"positions": {**POSITIONS, "max": 10**400}}, "padding: positions has 1000000"),
        ({"positions": {**POSITIONS, "buckets": 1001}}, "padding: positions has 1000 for max, exp"),
        ({"histogram_documents": [3, 10**400]}, "padding: histogram_documents has a count above"),
        ({"tokens": 10**400}, "padding: tokens is 1000000"),
        ({"tokens": "many"}, "padding: tokens is 'many', expected a whole number"),
        ({"tokens": True}, "padding: tokens is True, expected a whole number"),
        ({"lengths": [64.5]}, "padding: lengths: 0 is 64.5, expected"),
        ({"positions": {**POSITIONS, "max": -1}}, "padding: positions: max is -1, expected"),
        ({"positions": {**POSITIONS, "max": "x"}}, "padding: positions: max is 'x', expected a"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_record_that_no_job_can_have_written_is_refused(execution, tmp_path, changes, sentence):
    record = execution.record("fast", 1)
    evidence = dataclasses.replace(record.evidence, padding=WASTEFUL)
    folder = write_evidence(tmp_path, evidence, record.steps, record.examples, record.parity)
    path = folder / "evidence.json"
    raw = json.loads(path.read_text())
    assert read_evidence(folder).evidence.padding == WASTEFUL
    raw["padding"].update(changes)
    path.write_text(json.dumps(raw))
    with pytest.raises(EvidenceError) as caught:
        read_evidence(folder)
    assert sentence in str(caught.value)
