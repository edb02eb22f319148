"""Several candidates: Holm over the any-of choice, and what a compiler-only one tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import ArmDeclaration
from compilegate.gate.statistics.multiplicity import holm_confidences


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

    levels = holm_confidences(list(p_values), 0.95, passes)
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
    assert "Any of 2 candidates may win, so bounds are at 97.5% instead of 95%" in note.sentence


def test_once_one_candidate_passed_the_other_is_judged_more_mildly():
    p_values = {"second": 0.04, "first": 0.02}
    levels = holm_confidences(
        list(p_values), 0.95, lambda name, confidence: p_values[name] <= 1.0 - confidence
    )
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
        recipe = {**execution.record("large", seed).evidence.recipe, "batch_size": 48}
        execution.change_evidence("large", seed, recipe=recipe)
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
    accuracy, log_loss = (note.sentence for note in large.notes if note.code is Code.EFFECT_SPLIT)
    assert "accuracy: the compiler costs nothing that can be told from chance" in accuracy
    assert "(measured by compiler-only), and batch_size 48 costs 3." in accuracy
    assert "(measured by compiler-only), and batch_size 48 costs 0." in log_loss  # lower is better


def test_without_a_compiler_only_candidate_of_the_same_compiler_nothing_is_split(new_execution):
    execution = with_larger_batch(new_execution)
    arms = dict(execution.experiment.arms)
    arms["compiler-only"] = ArmDeclaration(
        **{**arms["compiler-only"].model_dump(), "compiler": "xla"}
    )
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})
    assert execution.judge().candidates[1].effects == ()
