"""Padding in the gate: declared where arms differ in it, with advice where it costs much."""

from __future__ import annotations

import dataclasses
import json

import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.gate.findings import Outcome
from compilegate.gate.observations import Observations, observe
from compilegate.gate.speed import buckets_advised
from compilegate.job.evidence import EvidenceError, PaddedPositions, PaddingRecord, write_evidence

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
    execution.declare(arm, padding=padding)
    lengths = {"max": (64,), "buckets": (16, 64), "longest": ()}[padding]
    record = dataclasses.replace(WASTEFUL, padding=padding, lengths=lengths)
    for seed in execution.experiment.seeds:
        execution.change_recipe(arm, seed, padding=padding, data_order=order)
        execution.change_evidence(arm, seed, padding=record)


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


@pytest.mark.parametrize(
    ("record", "advised"),
    [
        (WASTEFUL, True),
        (BUCKETS, False),
        (
            dataclasses.replace(WASTEFUL, tokens=705, positions=PaddedPositions(1000, 710, 708)),
            False,
        ),
        (dataclasses.replace(WASTEFUL, positions=PaddedPositions(1000, 920, 700)), False),
    ],
    ids=["much padding", "buckets already", "little padding", "buckets save little"],
)
def test_buckets_are_advised_where_there_is_something_to_gain(record, advised):
    advice = buckets_advised(record)
    assert (advice is not None) is advised
    assert advice is None or ("70%" in advice and "58%" in advice)


def test_padding_is_no_matter_of_the_verdict(execution):
    for arm in ("baseline", "fast"):
        padded(execution, arm, "max", "one order")
    assert execution.judge().candidates[0].outcome is Outcome.PASS


def test_observations_keep_what_the_first_job_of_an_arm_recorded(execution):
    padded(execution, "fast", "buckets", "by length")
    observed = observe(execution.experiment, execution.records)
    assert {each.arm: each.padding for each in observed.arms} == {
        "baseline": None,
        "fast": BUCKETS,
    }
    assert Observations.from_json(observed.to_json()) == observed


POSITIONS = {"max": 1000, "buckets": 420, "longest": 700}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"padding": "short"}, "padding"),
        ({"lengths": [64, 32]}, "lengths"),
        ({"lengths": [0]}, "lengths"),
        ({"lengths": [64.5]}, "lengths"),
        ({"bucket_lengths": [64, 16]}, "bucket_lengths"),
        ({"histogram_upto": [64, 64]}, "histogram_upto"),
        ({"histogram_documents": [1]}, "histogram_documents"),
        ({"histogram_documents": [3, -1]}, "histogram_documents"),
        ({"tokens": 0}, "tokens"),
        ({"tokens": 421}, "tokens"),
        ({"tokens": 10**400}, "tokens"),
        ({"tokens": "many"}, "tokens"),
        ({"tokens": True}, "tokens"),
        ({"positions": {**POSITIONS, "max": 10**400}}, "tokens"),
        ({"positions": {**POSITIONS, "buckets": 1001}}, "tokens"),
        ({"positions": {**POSITIONS, "max": -1}}, "positions"),
        ({"positions": {**POSITIONS, "max": "x"}}, "positions"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_record_that_no_job_can_have_written_is_refused(execution, tmp_path, changes, key):
    record = execution.record("fast", 1)
    evidence = dataclasses.replace(record.evidence, padding=WASTEFUL)
    folder = write_evidence(tmp_path, evidence, record.steps, record.examples, record.parity)
    path = folder / "evidence.json"
    raw = json.loads(path.read_text())
    assert read_evidence(folder).evidence.padding == WASTEFUL
    raw["padding"].update(changes)
    path.write_text(json.dumps(raw))
    with pytest.raises(EvidenceError, match=rf"padding: {key}\b"):
        read_evidence(folder)
