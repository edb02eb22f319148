"""Whether arms trained in the precision that the workload declares: all alike, or one alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from compilegate.gate.reasons import Code, Outcome
from compilegate.report.remedies import remedies

SEEDS = (1, 2, 3)


def trained_in(execution: Any, arm: str, precision: str, *, seen_by: str = "recipe") -> None:
    """What the evidence says where the script of the arm trains in another precision. `seen_by`:
    the recipe, as jobs record it, or their parity probe alone."""
    for seed in SEEDS:
        evidence = execution.record(arm, seed).evidence
        if seen_by == "recipe":
            recipe = {**evidence.recipe, "precision": precision, "autocast": precision}
            execution.change_evidence(arm, seed, recipe=recipe)
        if evidence.parity is not None:
            parity = dataclasses.replace(evidence.parity, precision=precision)
            execution.change_evidence(arm, seed, parity=parity)


def declare(execution: Any, arm: str, precision: str) -> None:
    arms = dict(execution.experiment.arms)
    arms[arm] = arms[arm].model_copy(update={"precision": precision})
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})


def about_precision(found: Any) -> list[str]:
    return [each.sentence for each in found if each.code is Code.RECIPE_PRECISION]


def test_a_script_that_trains_both_arms_in_bf16_is_compared_and_named(execution) -> None:
    """The workload says nothing, which is fp32: the comparison is fair all the same."""
    trained_in(execution, "baseline", "bf16")
    trained_in(execution, "fast", "bf16")
    verdict = execution.judge()
    (candidate,) = verdict.candidates
    assert (candidate.outcome, verdict.decision.arm) == (Outcome.PASS, "fast")
    assert candidate.parity.precision == "bf16"
    (told,) = about_precision(candidate.notes)
    assert "this script trains under bf16 autocast; the workload declares fp32" in told
    assert 'set precision = "bf16" in [arms.baseline] and [arms.fast]' in told


@pytest.mark.parametrize("seen_by", ["recipe", "parity"])
def test_a_candidate_that_alone_trains_in_bf16_fails_with_the_line_to_change(
    seen_by: str, execution
) -> None:
    trained_in(execution, "fast", "bf16", seen_by=seen_by)
    verdict = execution.judge()
    (candidate,) = verdict.candidates
    assert candidate.outcome is Outcome.FAIL
    assert (verdict.baseline.sound, verdict.decision.arm) == (True, "baseline")
    (told,) = about_precision(candidate.reasons)
    assert 'set precision = "bf16" in [arms.fast]' in told
    # Not the compiler is to blame.
    assert Code.PARITY_DIFFERS not in {each.code for each in candidate.reasons}
    advice = " ".join(remedies(verdict, candidate))
    assert "precision" in advice
    assert "replace" not in advice


def test_a_baseline_that_alone_trains_in_bf16_fails_what_is_compared_with_it(execution) -> None:
    """What its own jobs did is known: no candidate's evidence makes it unsound, or sound."""
    trained_in(execution, "baseline", "bf16")
    verdict = execution.judge()
    (told,) = about_precision(verdict.candidates[0].reasons)
    assert 'set precision = "bf16" in [arms.baseline]' in told
    assert (verdict.baseline.sound, verdict.decision.arm) == (True, "baseline")


@pytest.mark.slow
def test_a_declared_difference_that_no_arm_makes_fails(execution) -> None:
    """The script has a precision of its own, whatever it is told."""
    declare(execution, "fast", "bf16")
    (told,) = about_precision(execution.judge().candidates[0].reasons)
    assert "this script trains in fp32; the workload declares bf16" in told
    trained_in(execution, "baseline", "bf16")
    trained_in(execution, "fast", "bf16")
    (told,) = about_precision(execution.judge().candidates[0].reasons)
    assert "in [arms.baseline]" in told


def test_an_arm_whose_jobs_differ_among_themselves_is_none(execution) -> None:
    recipe = {**execution.record("baseline", 2).evidence.recipe, "precision": "bf16"}
    execution.change_evidence("baseline", 2, recipe=recipe)
    verdict = execution.judge()
    assert [each.code for each in verdict.baseline.reasons] == [Code.RECIPE_PRECISION]
    assert verdict.decision.arm == "none"
