"""Parity that was not measured, or in part only, does not pass."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from compilegate.gate.reasons import Code, Outcome

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


@pytest.mark.parametrize(
    ("exploit", "code"),
    [
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
