"""Courses of the training losses: what is doubted, and what batches and chance explain."""

from __future__ import annotations

import numpy as np
import pytest

from compilegate.gate.integrity.models.courses import is_flat
from compilegate.gate.reasons import Code

STEPS = 60
DOUBTS = {Code.STEPS_OTHER_START, Code.STEPS_OTHER_END, Code.STEPS_LOSS_FLAT}


def fine_tuning(generator: np.random.Generator, steps: int) -> np.ndarray:
    """Losses that fall by a tenth under the noise of batches."""
    falling = 0.9 + 0.1 * np.exp(-5.0 * np.arange(steps) / steps)
    return falling * generator.lognormal(-0.045, 0.3, steps)


def test_a_loss_that_falls_less_than_its_batches_differ_is_not_called_flat():
    generator = np.random.default_rng(1)
    assert not any(is_flat(fine_tuning(generator, 300)) for _ in range(500))


def test_a_loss_that_stays_or_rises_is():
    generator = np.random.default_rng(2)
    flat = 1.0 + 0.05 * generator.standard_normal((200, 300))
    assert np.mean([is_flat(losses) for losses in flat]) > 0.7
    assert all(is_flat(losses + np.linspace(0.0, 0.5, 300)) for losses in flat)


@pytest.mark.slow
def test_batches_in_another_order_are_no_other_training(new_execution):
    """Two seeds may end close to each other by luck, and farther from the other arm's."""
    generator = np.random.default_rng(3)
    execution = new_execution(seeds=(1, 2), examples=200)
    doubted = 0
    for _ in range(60):
        for arm, seed in execution.records:
            execution.change_steps(arm, seed, loss=fine_tuning(generator, STEPS))
        reasons = execution.judge().candidates[0].reasons
        doubted += any(reason.code in DOUBTS for reason in reasons)
    assert doubted == 0


def test_weights_that_were_half_trained_at_first_are_doubted(new_execution):
    generator = np.random.default_rng(4)
    execution = new_execution(examples=200)
    falling = np.exp(-5.0 * np.arange(STEPS) / STEPS)
    for arm, seed in execution.records:
        first = 1.4 if arm == "baseline" else 0.8
        losses = (0.2 + (first - 0.2) * falling) * generator.lognormal(0.0, 0.05, STEPS)
        execution.change_steps(arm, seed, loss=losses)
    found = {reason.code for reason in execution.judge().candidates[0].reasons}
    assert Code.STEPS_OTHER_START in found
