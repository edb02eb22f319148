"""The verdict as a whole: who is released, and what does not change it."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.gate.findings import Code, Outcome
from compilegate.gate.settings import ArmDeclaration, Experiment
from compilegate.gate.statistics import holm
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


# Several candidates: Holm over the any-of choice, and what a compiler-only one tells.


def holm_on_p_values(p_values: dict[str, float], alpha: float) -> set[str]:
    """Holm's procedure as his paper states it."""
    rejected: set[str] = set()
    for step, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        if p_values[name] > alpha / (len(p_values) - step):
            break
        rejected.add(name)
    return rejected


@given(
    p_values=st.dictionaries(
        st.sampled_from("abcdefgh"), st.floats(1e-6, 1.0), min_size=1, max_size=8
    )
)
def test_the_same_candidates_pass_as_by_holm_s_procedure_on_p_values(p_values):
    def passes(name: str, confidence: float) -> bool:
        return p_values[name] <= 1.0 - confidence

    levels = holm(list(p_values), 0.95, passes)
    passing = {name for name, level in levels.items() if passes(name, level)}
    assert passing == holm_on_p_values(p_values, 1.0 - 0.95)


def test_one_candidate_is_judged_at_the_declared_confidence(execution):
    candidate = execution.judge().candidates[0]
    assert candidate.confidence == pytest.approx(0.95)
    assert Code.CONFIDENCE_HOLM not in {note.code for note in candidate.notes}


@pytest.mark.slow
def test_the_bounds_of_each_of_two_candidates_are_wider_and_the_report_says_why(new_execution):
    alone = new_execution().judge().candidates[0]
    both = new_execution(candidates=("fast", "broken"))
    both.records.pop(("broken", 1))
    candidate = both.judge().candidates[0]
    assert candidate.confidence == pytest.approx(0.975)
    assert candidate.metrics[0].delta.lower < alone.metrics[0].delta.lower
    note = next(item for item in candidate.notes if item.code is Code.CONFIDENCE_HOLM)
    assert note.numbers == {"confidence": pytest.approx(0.975), "candidates": 2}


def test_once_one_candidate_passed_the_other_is_judged_more_mildly():
    p_values = {"second": 0.04, "first": 0.02}
    levels = holm(list(p_values), 0.95, lambda name, confidence: p_values[name] <= 1.0 - confidence)
    assert levels == pytest.approx({"first": 0.975, "second": 0.95})


@pytest.mark.slow
def test_two_candidates_that_are_as_good_and_faster_both_pass(new_execution):
    verdict = new_execution(candidates=("fast", "faster")).judge()
    assert [item.outcome for item in verdict.candidates] == [Outcome.PASS, Outcome.PASS]


def with_larger_batch(new_execution, **changes):
    """A compiler-only candidate and one with its compiler and a batch of 48, so trained."""
    execution = new_execution(candidates=("compiler-only", "large"), **changes)
    arms = dict(execution.experiment.arms)
    arms["large"] = ArmDeclaration(**{**arms["large"].model_dump(), "batch_size": 48})
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})
    for seed in execution.experiment.seeds:
        execution.change_recipe("large", seed, batch_size=48)
    return execution


@pytest.mark.slow
def test_a_compiler_only_candidate_splits_the_batch_s_effect_from_the_compiler_s(new_execution):
    candidates = with_larger_batch(new_execution).judge().candidates
    compiler_only, large = candidates
    assert compiler_only.effects == ()
    effect = next(item for item in large.effects if item.metric == "accuracy")
    assert (effect.compiler_only, effect.changed) == ("compiler-only", ("batch_size 48",))
    whole = next(item for item in large.metrics if item.metric == "accuracy").delta
    assert effect.compiler.estimate + effect.rest.estimate == pytest.approx(whole.estimate)


@pytest.mark.slow
def test_the_split_says_in_words_what_costs_and_what_does_not(new_execution):
    execution = with_larger_batch(new_execution)
    worse = new_execution(candidates=("compiler-only", "large"), worse_by=0.04)
    for seed in execution.experiment.seeds:
        harmed = worse.record("large", seed).examples
        execution.change_examples("large", seed, scores=harmed.scores, losses=harmed.losses)
    large = execution.judge().candidates[1]
    accuracy, log_loss = sorted(large.effects, key=lambda it: it.metric)
    assert abs(accuracy.compiler.estimate) < 0.01
    assert accuracy.rest.upper < -0.01
    assert log_loss.rest.lower > 0.0  # lower is better
    assert [note.numbers for note in large.notes if note.code is Code.EFFECT_SPLIT] == [
        {"metric": "accuracy"},
        {"metric": "log_loss"},
    ]


def test_without_a_compiler_only_candidate_of_the_same_compiler_nothing_is_split(new_execution):
    execution = with_larger_batch(new_execution)
    arms = dict(execution.experiment.arms)
    arms["compiler-only"] = ArmDeclaration(
        **{**arms["compiler-only"].model_dump(), "compiler": "xla"}
    )
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})
    assert execution.judge().candidates[1].effects == ()
