"""Parity: what eager's own rounding explains, and what several jobs of an arm come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from compilegate.gate.findings import Code, Outcome
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import ParityErrors, ParityRecord
from compilegate.job.evidence.parity import (
    EPSILON,
    ParityAnswer,
    ParityVerdict,
    Why,
    departing,
    parity_verdict,
)
from tests.gate.conftest import build_execution

LIMIT = 20.0
SHAPE = (3, 12)
EAGER = np.random.default_rng(0).uniform(2e-7, 6e-7, SHAPE)
EXPLAINED = EAGER.max(axis=0)
"""By tensor, the largest error of eager's over the steps: its rounding explains that much."""
PASS, FAIL, CANNOT_TELL = ParityAnswer.PASS, ParityAnswer.FAIL, ParityAnswer.CANNOT_TELL
factors = arrays(float, SHAPE, elements=st.floats(0.001, 30.0))
places = st.tuples(st.integers(0, SHAPE[0] - 1), st.integers(0, SHAPE[1] - 1))


def errors(**changed: Any) -> ParityErrors:
    gradients = [f"gradient of layer.{index}" for index in range(SHAPE[1] - 2)]
    whole = {
        "tensors": np.array(["loss", "logits", *gradients]),
        "eager": EAGER,
        "repeated": np.zeros(SHAPE),
        "compiled": 1.5 * EAGER,
    }
    return ParityErrors(**{**whole, **changed})


def judged(precision: str = "fp32", limit: float = LIMIT, **changed: Any) -> ParityVerdict:
    return parity_verdict(errors(**changed), precision, limit)


def at(array: np.ndarray, place: Any, value: float) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


ALL = slice(None)


@pytest.mark.parametrize(
    ("changed", "answer", "why"),
    [
        ({}, PASS, Why.ALIKE),
        ({"compiled": at(1.5 * EAGER, (ALL, 3), 19.98 * EXPLAINED[3])}, PASS, Why.ALIKE),
        ({"compiled": at(1.5 * EAGER, (ALL, 3), 20.02 * EXPLAINED[3])}, FAIL, Why.BEYOND),
        ({"compiled": at(1.5 * EAGER, (2, 7), 1e-4)}, CANNOT_TELL, Why.AT_TIMES),
        ({"compiled": at(EAGER, (0, 1), np.nan)}, FAIL, Why.NOT_FINITE),
        ({"eager": at(EAGER, (2, 0), np.nan)}, CANNOT_TELL, Why.EAGER_NOT_FINITE),
        ({"eager": 0 * EAGER}, CANNOT_TELL, Why.NOT_MEASURED),
        ({"compiled": 0 * EAGER}, CANNOT_TELL, Why.NOT_MEASURED),
        ({"repeated": at(0 * EAGER, (1, 1), 1.99 * EXPLAINED[1])}, PASS, Why.ALIKE),
        ({"repeated": at(0 * EAGER, (1, 1), 2.01 * EXPLAINED[1])}, CANNOT_TELL, Why.EAGER_VARIES),
        (  # on a tensor of which eager is exact by luck, the epsilon is no alarm
            {"eager": at(EAGER, (ALL, 0), 0), "compiled": at(EAGER, (ALL, 0), EPSILON["fp32"])},
            PASS,
            Why.ALIKE,
        ),
        ({"eager": 0 * EAGER + 0.4, "compiled": 0 * EAGER + 0.4}, CANNOT_TELL, Why.TOO_COARSE),
        ({"eager": 1e6 * EAGER, "compiled": 1.5e6 * EAGER}, CANNOT_TELL, Why.BEYOND_ROUNDING),
    ],
    ids=lambda it: str(it) if isinstance(it, str) else "",
)
def test_what_errors_show(changed, answer, why) -> None:
    found = judged(**changed)
    assert (found.answer, found.why) == (answer, why)


def test_the_worst_tensor_is_named_with_its_step() -> None:
    compiled = 1.5 * EAGER
    compiled[:, 7] = [2e-3, 1e-3, 3e-3]
    worst = judged(compiled=compiled).worst
    assert (worst.tensor, worst.step) == ("gradient of layer.5", 2)
    assert worst.ratio == pytest.approx(3e-3 / EXPLAINED[7])
    assert np.flatnonzero(departing(errors(compiled=compiled), "fp32", LIMIT)).tolist() == [7]


@pytest.mark.parametrize(("compiled", "answer"), [(0.1, FAIL), (0.009, PASS)])
def test_bf16_has_its_own_epsilon_and_its_own_limit(compiled, answer) -> None:
    columns = {"eager": np.full(SHAPE, 0.006), "compiled": np.full(SHAPE, compiled)}
    assert judged("bf16", 4.0, **columns).answer is answer


@pytest.mark.parametrize(
    ("coarse", "error", "answer"), [(2, 0.026, CANNOT_TELL), (1, 0.026, PASS), (2, 0.024, PASS)]
)
def test_nine_of_ten_tensors_must_show_an_error_of_half_their_size(coarse, error, answer) -> None:
    eager = at(EAGER, (ALL, slice(coarse)), error)
    found = judged(eager=eager, compiled=eager)
    assert (found.answer, found.judged) == (answer, 12 - coarse * (error > 0.025))


@pytest.mark.slow
@given(factor=factors, place=places, worse=st.floats(1.0, 1e9))
def test_a_larger_error_never_does_better(factor, place, worse) -> None:
    compiled = factor * EAGER
    larger = judged(compiled=at(compiled, place, worse * compiled[place])).answer
    before = judged(compiled=compiled).answer
    assert (before is PASS) == bool((compiled / EXPLAINED <= LIMIT).all())
    if before is FAIL:
        assert larger is FAIL
    if larger is PASS:
        assert before is PASS


@given(
    column=st.sampled_from(["eager", "repeated", "compiled"]),
    place=places,
    value=st.sampled_from([np.nan, np.inf, 1e300]),
)
def test_no_number_that_is_not_one_ever_passes(column, place, value) -> None:
    found = judged(**{column: at(getattr(errors(), column), place, value)})
    if column == "eager" and value == 1e300:  # no more than one tensor too coarse to be judged
        assert found.judged == SHAPE[1] - 1
    else:
        assert found.answer is not PASS


# In the verdict.

SEEDS = (1, 2, 3)
REQUIRED = {"required": True}


def test_what_departs_is_told_with_its_script_where_arithmetic_differs(execution) -> None:
    departs = "In the backward pass, conv departs first."
    execution.alter_all("fast", parity__departs=departs, parity__repro="parity_repro")
    assert execution.judge().candidates[0].parity.repro is None
    execution.alter("fast", 2, errors__compiled=np.full((2, 3), 1e-3))
    verdict = execution.judge()
    parity = verdict.candidates[0].parity
    assert (parity.answer, parity.seed, parity.departs) == (FAIL, 2, departs)
    assert parity.repro == "repros/fast--2/repro.py"
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_one_replicate_that_can_tell_is_enough() -> None:
    execution = build_execution(parity=REQUIRED)
    execution.without_parity("fast", 1)
    execution.without_parity("fast", 2, "the step has no\nfloat64")
    (candidate,) = execution.judge().candidates
    assert (candidate.outcome, candidate.parity.seed) == (Outcome.PASS, 3)
    execution.without_parity("fast", 3)
    (candidate,) = execution.judge().candidates
    assert candidate.outcome is Outcome.FAIL
    assert candidate.reasons[0].code is Code.PARITY_CANNOT_TELL


@pytest.mark.parametrize(
    ("seeds", "outcome"), [((1,), Outcome.INCONCLUSIVE), (SEEDS, Outcome.FAIL)]
)
def test_errors_that_exceed_the_limit_at_times_leave_it_open(execution, seeds, outcome) -> None:
    """In one job: rounding near a ReLU can cause it. In all of them it is the compiler's."""
    for seed in SEEDS:
        execution.without_parity("fast", seed)
    for seed in seeds:
        execution.alter("fast", seed, parity=ParityRecord("fp32", SHAPE[0], 0.1))
        execution.put("fast", seed, parity=errors(compiled=at(1.5 * EAGER, (2, 7), 1e-4)))
    assert execution.judge().candidates[0].outcome is outcome


def test_a_candidate_without_a_compiler_has_no_parity_to_show() -> None:
    execution = build_execution(parity=REQUIRED)
    execution.declare("fast", compiler="eager")
    execution.alter_all("fast", compiler=execution.record("baseline", 1).evidence.compiler)
    for seed in SEEDS:
        execution.without_parity("fast", seed)
    (candidate,) = execution.judge().candidates
    assert (candidate.outcome, candidate.parity) == (Outcome.PASS, None)


@pytest.mark.parametrize(
    ("settings", "compiled", "outcome"),
    [({"enabled": False}, 1e-3, Outcome.PASS), ({"fp32_limit": 1.05}, 7e-7, Outcome.FAIL)],
)
def test_the_workload_s_settings_are_followed(settings, compiled, outcome) -> None:
    execution = build_execution(parity=settings)
    execution.alter("fast", 1, errors__compiled=np.full((2, 3), compiled))
    (candidate,) = execution.judge().candidates
    assert candidate.outcome is outcome
    assert (candidate.parity is None) is (outcome is Outcome.PASS)


@pytest.mark.parametrize(("precision", "answer"), [("bf16", PASS), ("fp8", CANNOT_TELL)])
def test_parity_is_judged_in_the_precision_that_it_was_measured_in(
    execution, precision, answer
) -> None:
    """A precision without a limit cannot be judged; whether it is the declared one is another
    question, with another code."""
    execution.alter_all("fast", parity__precision=precision)
    parity = execution.judge().candidates[0].parity
    assert (parity.answer, parity.precision) == (answer, precision)
