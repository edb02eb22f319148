"""A loose margin is said in the verdict's first line."""

from __future__ import annotations

import pytest

from compilegate.gate.settings import MetricGuard


def decided(new_execution, **settings):
    return new_execution(**settings).judge().decision.sentence


def test_a_usual_margin_is_not_called_loose(new_execution):
    assert "loose" not in decided(new_execution)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        (
            {"accuracy": MetricGuard(direction="higher", margin=0.3)},
            "accuracy may be 30.00 points lower than the baseline's",
        ),
        (
            {"accuracy": MetricGuard(direction="higher", margin=0.5, relative=True)},
            "accuracy may be 47.",
        ),
        (
            {"log_loss": MetricGuard(direction="lower", margin=0.2)},
            "log_loss may be 0.2000 nats higher than the baseline's",
        ),
    ],
)
def test_a_margin_that_lets_much_pass_is(new_execution, metrics, told):
    sentence = decided(new_execution, metrics=metrics)
    assert sentence.startswith("Release fast, seed 1: ")
    assert f"which are loose ({told}" in sentence


def test_so_is_a_low_confidence(new_execution):
    assert "The confidence is 0.8: one in 5" in decided(new_execution, confidence=0.8)
