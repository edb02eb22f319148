"""Parity that was not measured, or in part only, does not pass."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import ParitySettings

SEEDS = (1, 2, 3)


def parity_of(execution, **columns):
    for seed in SEEDS:
        execution.change_parity("fast", seed, **columns)


def parity_of_zeros(execution):
    zeros = np.zeros((2, 3))
    parity_of(execution, eager=zeros, compiled=zeros)


def parity_of_eager_with_itself(execution):
    for seed in SEEDS:
        eager = execution.record("fast", seed).parity.eager
        execution.change_parity("fast", seed, compiled=eager.copy())


def parity_of_nothing_finite(execution):
    parity_of(execution, eager=np.full((2, 3), np.nan))


def parity_of_one_tensor(execution):
    column = np.full((2, 1), 4e-7)
    tensors = np.array(["loss"])
    parity_of(execution, tensors=tensors, eager=column, repeated=0 * column, compiled=1.1 * column)


def parity_wrong_in_half_of_the_steps(execution):
    for seed in SEEDS:
        parity = execution.record("fast", seed).parity
        columns = {
            name: np.concatenate([getattr(parity, name)] * 2)
            for name in ("eager", "repeated", "compiled")
        }
        columns["compiled"][::2, 2] *= 1e5
        told = dataclasses.replace(execution.record("fast", seed).evidence.parity, steps=4)
        execution.change_evidence("fast", seed, parity=told)
        execution.change_parity("fast", seed, **columns)


def parity_of_few_parameters(execution):
    tell(execution, 2, trained_parameters=1000, compared_parameters=20)


def parity_of_another_seed(execution):
    tell(execution, 2, compared=execution.record("fast", 1).evidence.parity.compared)


def parity_wrong_in_half_of_the_steps_of_one_seed(execution):
    parity_wrong_in_half_of_the_steps(execution)
    for seed in (1, 2):
        eager = execution.record("fast", seed).parity.eager
        execution.change_parity("fast", seed, compiled=1.1 * eager)


def tell(execution, seed, **fields):
    told = dataclasses.replace(execution.record("fast", seed).evidence.parity, **fields)
    execution.change_evidence("fast", seed, parity=told)


def test_who_does_not_say_what_parity_covered_is_named_and_passes(execution):
    tell(execution, 2, trained_parameters=None, compared_parameters=None)
    (candidate,) = execution.judge().candidates
    assert candidate.outcome is Outcome.PASS
    assert "(seed 2)" in next(
        note.sentence for note in candidate.notes if note.code is Code.PARITY_COVERAGE_UNKNOWN
    )


def test_who_does_not_say_what_parity_covered_does_not_pass_where_it_is_required(new_execution):
    execution = new_execution(parity=ParitySettings(required=True))
    tell(execution, 2, trained_parameters=None, compared_parameters=None)
    (candidate,) = execution.judge().candidates
    assert candidate.outcome is Outcome.INCONCLUSIVE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exploit", "code"),
    [
        (parity_of_few_parameters, Code.PARITY_PARTIAL),
        (parity_of_another_seed, Code.PARITY_OF_ANOTHER),
        (parity_wrong_in_half_of_the_steps_of_one_seed, Code.PARITY_CANNOT_TELL),
        (parity_of_zeros, Code.PARITY_NOT_MEASURED),
        (parity_of_eager_with_itself, Code.PARITY_NOT_MEASURED),
        (parity_of_nothing_finite, Code.PARITY_NOT_MEASURED),
        (parity_of_one_tensor, Code.PARITY_PARTIAL),
        (parity_wrong_in_half_of_the_steps, Code.PARITY_DIFFERS),
    ],
)
def test_parity_that_shows_nothing_does_not_pass(execution, exploit, code):
    exploit(execution)
    (candidate,) = execution.judge().candidates
    assert candidate.outcome is not Outcome.PASS
    assert code in {reason.code for reason in candidate.reasons}
