"""The verdict as a whole: who is released, what does not change it, and the document's schema."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from compilegate.gate.findings import Code, Outcome
from compilegate.gate.settings import Experiment
from compilegate.gate.verdict import Verdict, VerdictError, verdict_schema
from tests.gate.test_notes import larger_batch

SCHEMA = Path(__file__).parents[2] / "docs" / "verdict.schema.json"


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
def test_the_same_evidence_gives_the_same_bytes(execution):
    assert execution.judge().to_json() == execution.judge().to_json()


def test_the_published_schema_is_that_of_the_types():
    """UPDATE_GOLDEN=1 writes it."""
    text = json.dumps(verdict_schema(), indent=2, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        SCHEMA.write_text(text, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == text


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


NO_SUCH = {"column": "no_such", "metric": "accuracy"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "arm"),
    [
        ({}, "fast"),
        ({"seeds": (1,)}, "baseline"),
        ({"worse_by": 0.05}, "baseline"),
        ({"speedup": 1.0, "candidates": ("one", "two")}, "baseline"),
        ({"slices": [{**NO_SUCH, "watched": True}, {**NO_SUCH, "margin": 0.1}]}, "baseline"),
        (None, "none"),
    ],
)
def test_the_json_is_read_back_and_satisfies_the_schema(validator, new_execution, changes, arm):
    execution = new_execution(examples=800, **(changes or {}))
    if changes is None:
        execution.records.clear()
    verdict = execution.judge()
    assert Verdict.from_json(verdict.to_json()) == verdict
    document = json.loads(verdict.to_json())
    assert list(validator.iter_errors(document)) == []
    assert (document["decision"]["arm"], document["decision"]["registers"]) == (arm, arm)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 2),
        (("decision", "arm"), None),
        (("candidates", 0, "outcome"), "maybe"),
        (("candidates", 0, "reasons", 0, "code"), "no.such_code"),
        (("candidates", 0, "metrics", 0, "surprise"), 1),
    ],
)
def test_what_is_no_verdict_does_not(validator, execution, path, value):
    document = json.loads(execution.judge().to_json())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert list(validator.iter_errors(document)) != []


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


@pytest.mark.slow
def test_two_candidates_that_are_as_good_and_faster_both_pass(new_execution):
    verdict = new_execution(candidates=("fast", "faster")).judge()
    assert [item.outcome for item in verdict.candidates] == [Outcome.PASS, Outcome.PASS]


@pytest.mark.slow
def test_a_compiler_only_candidate_splits_the_batch_s_effect_from_the_compiler_s(
    new_execution,
) -> None:
    execution = larger_batch()
    worse = new_execution(candidates=("compiler-only", "large"), worse_by=0.04)
    for seed in execution.experiment.seeds:
        execution.change_examples("large", seed, **vars(worse.examples("large", seed)))
    compiler_only, large = execution.judge().candidates
    assert compiler_only.effects == ()
    accuracy, log_loss = sorted(large.effects, key=lambda it: it.metric)
    assert (accuracy.compiler_only, accuracy.changed) == ("compiler-only", ("batch_size 48",))
    whole = next(item for item in large.metrics if item.metric == "accuracy").delta
    assert accuracy.compiler.estimate + accuracy.rest.estimate == pytest.approx(whole.estimate)
    assert abs(accuracy.compiler.estimate) < 0.01
    assert accuracy.rest.upper < -0.01
    assert log_loss.rest.lower > 0.0  # lower is better
    # Without a candidate of the same compiler alone, nothing is split.
    execution.declare("compiler-only", compiler="xla")
    assert execution.judge().candidates[1].effects == ()
