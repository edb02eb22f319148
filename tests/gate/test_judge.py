"""The verdict as a whole: several candidates, and the document's schema."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from compilegate.gate.findings import Code
from compilegate.gate.verdict import Verdict, VerdictError, verdict_schema
from tests.gate.conftest import build_execution
from tests.gate.test_notes import larger_batch

SCHEMA = Path(__file__).parents[2] / "docs" / "verdict.schema.json"


def test_the_released_replicate_is_the_first_declared_seed_not_the_best() -> None:
    assert build_execution(seeds=(9, 4, 6)).judge().decision.seed == 9


# The document.


def test_the_published_schema_is_that_of_the_types() -> None:
    """UPDATE_GOLDEN=1 writes it."""
    text = json.dumps(verdict_schema(), indent=2, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        SCHEMA.write_text(text, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == text


NO_SUCH = {"column": "no_such", "metric": "accuracy"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "arm"),
    [
        ({}, "fast"),
        ({"seeds": (1,)}, "baseline"),
        ({"speedup": 1.0, "candidates": ("one", "two")}, "baseline"),
        ({"slices": [{**NO_SUCH, "watched": True}, {**NO_SUCH, "margin": 0.1}]}, "baseline"),
        (None, "none"),
    ],
)
def test_a_verdict_satisfies_the_schema_and_a_damaged_one_does_not(changes, arm) -> None:
    execution = build_execution(examples=800, **(changes or {}))
    if changes is None:
        execution.records.clear()
    document = json.loads(execution.judge().to_json())
    assert (document["decision"]["arm"], document["decision"]["registers"]) == (arm, arm)
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert list(validator.iter_errors(document)) == []
    candidate = document["candidates"][0]
    for place, key, value in (
        (document, "schema_version", 2),
        (document["decision"], "arm", None),
        (candidate, "outcome", "maybe"),
        (candidate["reasons"][0], "code", "no.such_code"),
        (candidate, "surprise", 1),
    ):
        before = dict(place)
        place[key] = value
        assert list(validator.iter_errors(document)) != [], key
        place.clear()
        place.update(before)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "the document"),
        ("{}", "workload: Field required"),
        ('{"schema_version": 2}', "schema"),
    ],
)
def test_what_is_no_verdict_is_refused_in_one_sentence(text, expected) -> None:
    with pytest.raises(VerdictError, match=expected) as caught:
        Verdict.from_json(text)
    assert "\n" not in str(caught.value)


# Several candidates: Holm over the any-of choice, and what a compiler-only one tells.


@pytest.mark.slow
def test_the_bounds_of_each_of_two_candidates_are_wider_and_the_report_says_why() -> None:
    (alone,) = build_execution().judge().candidates
    both = build_execution(candidates=("fast", "broken"))
    both.records.pop(("broken", 1))
    candidate = both.judge().candidates[0]
    assert (alone.confidence, candidate.confidence) == pytest.approx((0.95, 0.975))
    assert candidate.metrics[0].delta.lower < alone.metrics[0].delta.lower
    (note,) = (it for it in candidate.notes if it.code is Code.CONFIDENCE_HOLM)
    assert note.numbers == {"confidence": pytest.approx(0.975), "candidates": 2}


@pytest.mark.slow
def test_a_compiler_only_candidate_splits_the_batch_s_effect_from_the_compiler_s() -> None:
    execution = larger_batch()
    worse = build_execution(candidates=("compiler-only", "large"), worse_by=0.04)
    for seed in execution.experiment.seeds:
        execution.put("large", seed, examples=worse.examples("large", seed))
    compiler_only, large = execution.judge().candidates
    assert compiler_only.effects == ()
    accuracy, log_loss = sorted(large.effects, key=lambda it: it.metric)
    assert (accuracy.compiler_only, accuracy.changed) == ("compiler-only", ("batch_size 48",))
    (whole,) = (it.delta for it in large.metrics if it.metric == "accuracy")
    assert accuracy.compiler.estimate + accuracy.rest.estimate == pytest.approx(whole.estimate)
    assert abs(accuracy.compiler.estimate) < 0.01
    assert accuracy.rest.upper < -0.01
    assert log_loss.rest.lower > 0.0  # lower is better
    # Without a candidate of the same compiler alone, nothing is split.
    execution.declare("compiler-only", compiler="xla")
    assert execution.judge().candidates[1].effects == ()
