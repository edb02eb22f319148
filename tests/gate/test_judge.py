"""The verdict as a whole: who is released, and what does not change it."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.gate.reasons import Outcome
from compilegate.gate.settings import Experiment
from compilegate.gate.verdict import Verdict, VerdictError


def test_a_candidate_as_good_and_faster_is_released(execution):
    verdict = execution.judge()
    assert verdict.candidates[0].outcome is Outcome.PASS
    assert verdict.decision.arm == "fast"
    assert {reason.outcome for reason in verdict.candidates[0].reasons} == {Outcome.PASS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"worse_by": 0.05}, Outcome.FAIL),
        ({"speedup": 1.05}, Outcome.FAIL),
        ({"examples": 200}, Outcome.INCONCLUSIVE),
        ({"seeds": (4,)}, Outcome.INCONCLUSIVE),
    ],
)
def test_the_baseline_stands_against_a_candidate_that_did_not_pass(new_execution, changes, outcome):
    verdict = new_execution(**changes).judge()
    assert verdict.candidates[0].outcome is outcome
    assert verdict.decision.arm == "baseline"
    assert str(outcome)[:4] in verdict.decision.sentence


@pytest.mark.slow
def test_of_several_passing_candidates_the_one_proven_fastest_is_released(new_execution):
    execution = new_execution(candidates=("fast", "faster"))
    for seed in execution.experiment.seeds:
        steps = execution.record("faster", seed).steps
        execution.change_steps("faster", seed, seconds=steps.seconds * 0.8)
    verdict = execution.judge()
    assert [item.outcome for item in verdict.candidates] == [Outcome.PASS, Outcome.PASS]
    assert verdict.decision.arm == "faster"


def test_the_released_replicate_is_the_first_declared_seed_not_the_best(new_execution):
    verdict = new_execution(seeds=(9, 4, 6)).judge()
    assert verdict.decision.seed == 9


def test_the_reasons_that_decided_come_first(new_execution):
    reasons = new_execution(speedup=1.05).judge().candidates[0].reasons
    assert [reason.outcome for reason in reasons] == [Outcome.FAIL, *[Outcome.PASS] * 3]


@pytest.mark.slow
def test_the_noise_floor_needs_two_seeds(new_execution):
    floors = new_execution().judge().baseline.noise_floor
    assert [floor.metric for floor in floors] == ["accuracy", "log_loss"]
    assert all(floor.seed_sd > 0 for floor in floors)
    assert new_execution(seeds=(1,)).judge().baseline.noise_floor == ()


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    names=st.lists(
        st.from_regex(r"[a-z]{1,12}", fullmatch=True), min_size=2, max_size=2, unique=True
    ).filter(lambda names: "none" not in names)
)
def test_renaming_the_arms_changes_nothing_but_the_names(new_execution, names):
    execution = new_execution(examples=300)
    new_name = dict(zip(("baseline", "fast"), names, strict=True))
    expected = execution.judge()
    declared = execution.experiment.model_dump()
    declared["baseline"] = new_name["baseline"]
    declared["arms"] = {new_name[arm]: values for arm, values in declared["arms"].items()}
    execution.experiment = Experiment.model_validate(declared)
    execution.records = {
        (new_name[arm], seed): dataclasses.replace(
            record, evidence=dataclasses.replace(record.evidence, arm=new_name[arm])
        )
        for (arm, seed), record in execution.records.items()
    }
    verdict = execution.judge()
    assert verdict.decision.arm == new_name.get(expected.decision.arm)
    found, wanted = verdict.candidates[0], expected.candidates[0]
    assert (found.outcome, found.metrics, found.speed) == (
        wanted.outcome,
        wanted.metrics,
        wanted.speed,
    )


@pytest.mark.parametrize("worse_by", [0.0, 0.05])
def test_a_replicate_that_is_added_a_second_time_under_another_seed_fails(new_execution, worse_by):
    execution = new_execution(worse_by=worse_by)
    for arm in ("baseline", "fast"):
        record = execution.record(arm, 3)
        evidence = dataclasses.replace(record.evidence, seed=4)
        execution.records[arm, 4] = dataclasses.replace(record, evidence=evidence)
    execution.experiment = execution.experiment.model_copy(update={"seeds": [1, 2, 3, 4]})
    verdict = execution.judge()
    assert verdict.candidates[0].outcome is Outcome.FAIL
    assert verdict.decision.arm == "none"


@pytest.mark.slow
def test_the_same_evidence_gives_the_same_bytes(execution):
    assert execution.judge().to_json() == execution.judge().to_json()


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"seeds": (1,)}, {"worse_by": 0.05}])
def test_the_json_is_read_back_as_it_was(new_execution, changes):
    verdict = new_execution(**changes).judge()
    assert Verdict.from_json(verdict.to_json()) == verdict


@pytest.mark.slow
def test_the_pipeline_s_condition_finds_the_arm_where_it_looks(new_execution):
    for changes in ({}, {"speedup": 1.0}):
        document = json.loads(new_execution(**changes).judge().to_json())
        assert document["decision"]["arm"] in {"fast", "baseline"}
        assert document["schema_version"] == 1
    execution = new_execution()
    execution.records.clear()
    assert json.loads(execution.judge().to_json())["decision"]["arm"] == "none"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "the document"),
        ("{}", "workload: Field required"),
        ('{"schema_version": 2}', "schema"),
    ],
)
def test_what_is_no_verdict_is_refused_in_one_sentence(text, told):
    with pytest.raises(VerdictError, match=told) as caught:
        Verdict.from_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"baseline": "other"}, "baseline is 'other'"),
        ({"seeds": [1, 1]}, "distinct seeds"),
        ({"arms": {"none": None}}, "arms"),
    ],
)
def test_an_experiment_that_contradicts_itself_is_refused(execution, changes, told):
    declared = execution.experiment.model_dump()
    if "arms" in changes:
        changes = {"arms": {**declared["arms"], "none": declared["arms"]["fast"]}}
    with pytest.raises(ValueError, match=told):
        Experiment.model_validate({**declared, **changes})
